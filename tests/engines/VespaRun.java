import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.yahoo.searchlib.rankingexpression.RankingExpression;
import com.yahoo.searchlib.rankingexpression.evaluation.DoubleValue;
import com.yahoo.searchlib.rankingexpression.evaluation.MapContext;
import com.yahoo.searchlib.rankingexpression.evaluation.StringValue;
import com.yahoo.searchlib.rankingexpression.evaluation.TensorValue;
import com.yahoo.searchlib.rankingexpression.evaluation.Value;
import com.yahoo.tensor.Tensor;
import com.yahoo.tensor.TensorType;
import com.yahoo.tensor.serialization.JsonFormat;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * Evaluate ranking expressions with Vespa's evaluator.
 *
 * <p>Argument: a JSON file with a list of cases, each an {@code expression}, {@code rows} of values by
 * name (null is a missing attribute, an object is a tensor) and {@code constants} in Vespa's JSON.
 * Prints a JSON list with the values of every case.
 */
class VespaRun {
    private static final TensorType TYPE = TensorType.fromSpec("tensor(f{})");

    public static void main(String[] arguments) throws Exception {
        List<List<Double>> results = new ArrayList<>();
        for (JsonNode each : new ObjectMapper().readTree(new File(arguments[0]))) {
            RankingExpression expression = new RankingExpression(each.get("expression").asText());
            List<Double> values = new ArrayList<>();
            for (JsonNode row : each.get("rows")) {
                MapContext context = new MapContext();
                row.fields().forEachRemaining(field -> context.put(field.getKey(), value(field.getValue())));
                each.path("constants").fields().forEachRemaining(
                        field -> context.put(field.getKey(), value(field.getValue())));
                values.add(expression.evaluate(context).asDouble());
            }
            results.add(values);
        }
        System.out.println("RESULT " + new ObjectMapper().writeValueAsString(results));
    }

    private static Value value(JsonNode node) {
        if (node.isTextual()) {
            return new StringValue(node.asText());
        }
        if (node.isObject()) {
            Tensor tensor = JsonFormat.decode(TYPE, node.toString().getBytes(StandardCharsets.UTF_8));
            return new TensorValue(tensor);
        }
        return new DoubleValue(node.isNull() ? Double.NaN : node.asDouble());
    }
}
