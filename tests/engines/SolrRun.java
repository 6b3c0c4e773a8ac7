import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.solr.client.solrj.SolrQuery;
import org.apache.solr.client.solrj.embedded.EmbeddedSolrServer;
import org.apache.solr.client.solrj.response.QueryResponse;
import org.apache.solr.common.SolrDocument;
import org.apache.solr.common.SolrInputDocument;
import org.apache.solr.common.util.Utils;
import org.apache.solr.core.SolrCore;
import org.apache.solr.ltr.model.LTRScoringModel;
import org.apache.solr.ltr.store.rest.ManagedFeatureStore;
import org.apache.solr.ltr.store.rest.ManagedModelStore;

/**
 * Index documents into an embedded Solr, upload feature stores and models, and run searches.
 *
 * <p>Arguments: the home of Solr and a JSON file with {@code documents} and {@code cases}. A case has
 * {@code features}, {@code model} and {@code params}. Prints a JSON list with the ids and scores, or
 * the error, of every case.
 */
class SolrRun {
    public static void main(String[] arguments) throws Exception {
        Map<?, ?> input = (Map<?, ?>) Utils.fromJSON(Files.readAllBytes(Path.of(arguments[1])));
        List<Object> results = new ArrayList<>();
        try (EmbeddedSolrServer server = new EmbeddedSolrServer(Path.of(arguments[0]), "rows")) {
            List<SolrInputDocument> documents = new ArrayList<>();
            for (Object fields : (List<?>) input.get("documents")) {
                SolrInputDocument document = new SolrInputDocument();
                ((Map<?, ?>) fields).forEach((name, value) -> document.addField((String) name, value));
                documents.add(document);
            }
            server.add(documents);
            server.commit();
            for (Object each : (List<?>) input.get("cases")) {
                results.add(run(server, (Map<?, ?>) each));
            }
        }
        System.out.println("RESULT " + Utils.toJSONString(results).replace("\n", " "));
        System.exit(0);
    }

    private static Map<String, Object> run(EmbeddedSolrServer server, Map<?, ?> input) {
        Map<String, Object> result = new LinkedHashMap<>();
        try {
            upload(server, input);
            SolrQuery query = new SolrQuery();
            ((Map<?, ?>) input.get("params")).forEach((name, value) -> query.set((String) name, value.toString()));
            QueryResponse response = server.query(query);
            List<Object> ids = new ArrayList<>();
            List<Object> scores = new ArrayList<>();
            for (SolrDocument document : response.getResults()) {
                ids.add(document.getFieldValue("id"));
                scores.add(document.getFieldValue("score"));
            }
            result.put("ids", ids);
            result.put("scores", scores);
        } catch (Exception error) {
            StringBuilder causes = new StringBuilder();
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                causes.append(cause).append("; ");
            }
            result.put("error", causes.toString());
        }
        return result;
    }

    /** Do what PUT schema/feature-store and PUT schema/model-store do. */
    @SuppressWarnings("unchecked")
    private static void upload(EmbeddedSolrServer server, Map<?, ?> input) throws Exception {
        if (input.get("model") == null) {
            return;
        }
        try (SolrCore core = server.getCoreContainer().getCore("rows")) {
            ManagedFeatureStore features = ManagedFeatureStore.getManagedFeatureStore(core);
            features.applyUpdatesToManagedData(input.get("features"));
            ManagedModelStore models = ManagedModelStore.getManagedModelStore(core);
            LTRScoringModel model = ManagedModelStore.fromLTRScoringModelMap(
                    core.getResourceLoader(), (Map<String, Object>) input.get("model"), features);
            models.addModel(model);
        }
    }
}
