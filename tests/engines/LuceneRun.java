import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.lucene.expressions.Expression;
import org.apache.lucene.expressions.js.JavascriptCompiler;
import org.apache.lucene.search.DoubleValues;

/**
 * Evaluate expressions with Lucene.
 *
 * <p>Argument: a folder with, for each k from 0, {@code k.expression}, {@code k.fields} with a field
 * per line, and {@code k.rows} with a row of numbers per line, separated by blanks; {@code NaN} is an
 * absent field, whose value is 0. Prints the values of every case.
 */
class LuceneRun {
    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        List<List<Double>> results = new ArrayList<>();
        for (int k = 0; Files.exists(folder.resolve(k + ".expression")); k++) {
            Expression expression = JavascriptCompiler.compile(Files.readString(folder.resolve(k + ".expression")));
            List<String> fields = Files.readAllLines(folder.resolve(k + ".fields"));
            List<Double> values = new ArrayList<>();
            for (String line : Files.readAllLines(folder.resolve(k + ".rows"))) {
                String[] row = line.split(" ");
                DoubleValues[] inputs = new DoubleValues[expression.variables.length];
                for (int i = 0; i < inputs.length; i++) {
                    inputs[i] = constant(value(expression.variables[i], fields, row));
                }
                values.add(expression.evaluate(inputs));
            }
            results.add(values);
        }
        System.out.println("RESULT " + results);
    }

    private static double value(String variable, List<String> fields, String[] row) {
        int end = variable.lastIndexOf('.');
        String name = variable.substring("doc['".length(), end - "']".length());
        double number = Double.parseDouble(row[fields.indexOf(name)]);
        if (variable.endsWith(".empty")) {
            return Double.isNaN(number) ? 1 : 0;
        }
        return Double.isNaN(number) ? 0 : number;
    }

    private static DoubleValues constant(double value) {
        return new DoubleValues() {
            @Override
            public double doubleValue() {
                return value;
            }

            @Override
            public boolean advanceExact(int document) {
                return true;
            }
        };
    }
}
