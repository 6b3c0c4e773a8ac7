#!/usr/bin/env bash
# Fetch the engines that tests/engines runs: fetch.sh FOLDER. What cannot be fetched is reported, and its tests skip.
set -uo pipefail
folder=$(mkdir -p "$1" && cd "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

dependency() {
  IFS=: read -r group artifact version <<<"$1"
  echo "<dependency><groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version></dependency>"
}

# fetch NAME GROUP:ARTIFACT:VERSION...
fetch() {
  local name=$1
  shift
  [ -e "$folder/$name/.complete" ] && return
  rm -rf "${folder:?}/$name"
  {
    echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    echo '<groupId>x</groupId><artifactId>x</artifactId><version>1</version><dependencies>'
    for each in "$@"; do dependency "$each"; done
    echo '</dependencies></project>'
  } >"$scratch/$name.xml"
  if timeout 200 mvn -q -B -f "$scratch/$name.xml" dependency:copy-dependencies -DoutputDirectory="$scratch/$name" >"$scratch/log" 2>&1; then
    touch "$scratch/$name/.complete"
    mv "$scratch/$name" "$folder/$name"
    echo "fetched $name"
  else
    echo "cannot fetch $name:" && grep -m 1 ERROR "$scratch/log"
  fi
}

fetch solr8 org.apache.solr:solr-core:8.11.4 org.apache.solr:solr-ltr:8.11.4
fetch solr9 org.apache.solr:solr-core:9.10.1
fetch vespa com.yahoo.vespa:searchlib:8.738.17 com.google.guava:guava:33.4.8-jre
fetch elasticsearch org.elasticsearch:elasticsearch:8.19.21 org.elasticsearch.plugin:x-pack-core:8.19.21
fetch lucene org.apache.lucene:lucene-expressions:9.12.3

# Maven Central has no Learning to Rank module of Solr 9: it is compiled from Solr's sources, which
# RANKINE_SOLR_SOURCE may name.
if [ -e "$folder/solr9/.complete" ] && ! compgen -G "$folder/solr9/solr-ltr-*.jar" >/dev/null; then
  source=${RANKINE_SOLR_SOURCE:-$scratch/solr}
  if [ ! -d "$source" ]; then
    GIT_TERMINAL_PROMPT=0 timeout 100 git clone -q --depth 1 --no-checkout --filter=blob:none --branch releases/solr/9.10.1 \
      https://github.com/apache/solr "$source" 2>"$scratch/log" &&
      timeout 60 git -C "$source" checkout -q HEAD -- solr/modules/ltr/src/java 2>"$scratch/log"
  fi
  if find "$source/solr/modules/ltr/src/java" -name '*.java' >"$scratch/files" 2>>"$scratch/log" &&
    javac -nowarn -d "$scratch/classes" -cp "$folder/solr9/*" "@$scratch/files" 2>>"$scratch/log"; then
    jar cf "$folder/solr9/solr-ltr-9.10.1.jar" -C "$scratch/classes" .
    echo "compiled solr-ltr of Solr 9"
  else
    echo "cannot compile solr-ltr of Solr 9:" && head -n 1 "$scratch/log"
  fi
fi
exit 0
