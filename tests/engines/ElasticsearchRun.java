import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.search.SearchModule;
import org.elasticsearch.xcontent.NamedXContentRegistry;
import org.elasticsearch.xcontent.XContentParser;
import org.elasticsearch.xcontent.XContentParserConfiguration;
import org.elasticsearch.xcontent.XContentType;
import org.elasticsearch.xpack.core.ml.action.PutTrainedModelAction;
import org.elasticsearch.xpack.core.ml.inference.MlInferenceNamedXContentProvider;
import org.elasticsearch.xpack.core.ml.inference.results.SingleValueInferenceResults;
import org.elasticsearch.xpack.core.ml.inference.trainedmodel.RegressionConfig;
import org.elasticsearch.xpack.core.ml.inference.trainedmodel.inference.InferenceDefinition;
import org.elasticsearch.xpack.core.ml.ltr.MlLTRNamedXContentProvider;

/**
 * Read bodies of PUT _ml/trained_models as Elasticsearch does, and score rows with its inference.
 *
 * <p>Argument: a JSON file with a list of cases, each a {@code body}, its {@code definition} and
 * {@code rows} of features by name; absent features are missing. Prints the scores of every case.
 */
class ElasticsearchRun {
    public static void main(String[] arguments) throws Exception {
        List<NamedXContentRegistry.Entry> entries = new ArrayList<>();
        entries.addAll(new SearchModule(Settings.EMPTY, List.of()).getNamedXContents());
        entries.addAll(new MlInferenceNamedXContentProvider().getNamedXContentParsers());
        entries.addAll(new MlLTRNamedXContentProvider().getNamedXContentParsers());
        XContentParserConfiguration configuration =
                XContentParserConfiguration.EMPTY.withRegistry(new NamedXContentRegistry(entries));
        List<List<Double>> results = new ArrayList<>();
        try (XContentParser cases = parser(configuration, Files.readString(Path.of(arguments[0])))) {
            for (Object each : cases.list()) {
                results.add(run(configuration, (Map<?, ?>) each));
            }
        }
        System.out.println("RESULT " + results);
    }

    private static List<Double> run(XContentParserConfiguration configuration, Map<?, ?> input) throws Exception {
        try (XContentParser parser = parser(configuration, (String) input.get("body"))) {
            PutTrainedModelAction.Request request =
                    PutTrainedModelAction.Request.parseRequest("model", false, true, parser);
            Exception fault = request.validate();
            if (fault != null) {
                throw fault;
            }
            request.getTrainedModelConfig().getModelDefinition().getTrainedModel().validate();
        }
        List<Double> scores = new ArrayList<>();
        try (XContentParser parser = parser(configuration, (String) input.get("definition"))) {
            InferenceDefinition definition = InferenceDefinition.fromXContent(parser);
            for (Object row : (List<?>) input.get("rows")) {
                Map<String, Object> features = new HashMap<>();
                ((Map<?, ?>) row).forEach((name, value) -> features.put((String) name, value));
                SingleValueInferenceResults result = (SingleValueInferenceResults)
                        definition.infer(features, RegressionConfig.EMPTY_PARAMS);
                scores.add(result.value());
            }
        }
        return scores;
    }

    private static XContentParser parser(XContentParserConfiguration configuration, String text) throws Exception {
        return XContentType.JSON.xContent().createParser(configuration, text);
    }
}
