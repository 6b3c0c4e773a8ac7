import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * @TITLE@
 *
 * <p>Scores have the bits that rankine.Scorer computes for the same rows: sums are taken in the same
 * order. Columns that a row lacks are missing or 0; columns that the model does not have are
 * ignored. What cannot be scored throws an IllegalArgumentException.
 *
 * <p>Needs Java 11 or newer.
 */
public final class @CLASS@ {
    private @CLASS@() {}

    /** The model in rankine's JSON format; a constant of Java has at most 65,535 bytes. */
    private static final String[] MODEL = {
@MODEL@
    };

    private static final Map<String, Object> DOCUMENT = object(parse(String.join("", MODEL)));
    private static final Map<String, Object> COLUMNS = transform("log_columns");
    private static final Map<String, Object> MISSING = transform("missing_values");
    private static final Map<String, Object> BINS = transform("bins");
    private static final Map<String, Object> GRIDS = transform("grids");
    private static final boolean SCALES_LISTS = transform("list_range") != null;
    private static final double[] FEATURES = numbers(DOCUMENT.get("indices"));
    private static final double[] WEIGHTS = numbers(DOCUMENT.get("weights"));
    private static final String RULE = MISSING == null ? "" : (String) MISSING.get("rule");
    private static final double[] FILLED = MISSING == null ? new double[0] : numbers(MISSING.get("columns"));
    private static final double[] CONSTANTS = MISSING == null ? new double[0] : numbers(MISSING.get("values"));

    /** Score the rows of one list: maps from columns to values. */
    public static double[] scores(List<? extends Map<String, ?>> rows) {
        double[] result = BINS == null ? featureScores(rows) : tableScores(rows);
        for (int i = 0; i < result.length; i++) {
            if (Double.isNaN(result[i]) || Double.isInfinite(result[i])) {
                throw new IllegalArgumentException("the score of row " + i + " is " + result[i]);
            }
        }
        return result;
    }

    /** Return the positions of the k best rows, best first; equal scores keep their order. */
    public static int[] rank(List<? extends Map<String, ?>> rows, int k) {
        double[] scores = scores(rows);
        List<Integer> order = new ArrayList<>();
        for (int i = 0; i < scores.length; i++) {
            order.add(i);
        }
        // Adding 0 makes -0 equal to 0.
        order.sort(Comparator.comparingDouble(i -> -scores[i] + 0.0));
        return order.stream().limit(k).mapToInt(Integer::intValue).toArray();
    }

    /** Read lists of rows from standard input, one JSON list per line, and print their scores. */
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            List<Map<String, Object>> rows = new ArrayList<>();
            for (Object row : list(parse(line))) {
                rows.add(object(row));
            }
            out.println(Arrays.toString(scores(rows)));
        }
        out.flush();
    }

    // -- values

    /** Return the text of a category; a missing value is empty. */
    private static String textOf(Object value) {
        if (value == null) {
            return "";
        }
        if (value instanceof CharSequence || value instanceof Boolean || value instanceof LocalDate) {
            return value.toString();
        }
        if (value instanceof Double || value instanceof Float) {
            double number = ((Number) value).doubleValue();
            if (Double.isNaN(number)) {
                return "";
            }
            // Larger numbers skip integers, so that two categories could become one.
            if (Math.abs(number) < 1e15 && number == Math.rint(number)) {
                return Long.toString((long) number);
            }
        } else if (value instanceof BigDecimal) {
            BigDecimal number = (BigDecimal) value;
            if (number.abs().compareTo(BigDecimal.valueOf(1e15)) < 0 && number.stripTrailingZeros().scale() <= 0) {
                return number.toBigInteger().toString();
            }
        } else if (value instanceof Number) {
            return value.toString();
        }
        throw new IllegalArgumentException(value + " is not a category: pass text or a whole number");
    }

    /** Return a number, seconds since 1970 for a time, or NaN for a missing value. */
    private static double numberOf(Object value) {
        if (value == null) {
            return Double.NaN;
        }
        if (value instanceof Number) {
            return ((Number) value).doubleValue();
        }
        if (value instanceof Boolean) {
            return (Boolean) value ? 1 : 0;
        }
        if (value instanceof LocalDate) {
            return ((LocalDate) value).toEpochDay() * 86400L;
        }
        if (value instanceof Instant) {
            return ((Instant) value).getEpochSecond() + ((Instant) value).getNano() / 1e9;
        }
        if (value instanceof LocalDateTime) {
            return numberOf(((LocalDateTime) value).toInstant(ZoneOffset.UTC));
        }
        if (value instanceof OffsetDateTime) {
            return numberOf(((OffsetDateTime) value).toInstant());
        }
        if (value instanceof ZonedDateTime) {
            return numberOf(((ZonedDateTime) value).toInstant());
        }
        if (value instanceof String && ((String) value).length() > 4 && ((String) value).charAt(4) == '-') {
            return secondsOf((String) value);
        }
        throw new IllegalArgumentException("'" + value + "' is not a number");
    }

    private static final Pattern TIME = Pattern.compile(
            "(\\d{4}-\\d\\d-\\d\\d)(?:[T ](\\d\\d)(?::(\\d\\d)(?::(\\d\\d)(?:[.,](\\d+))?)?)?"
                    + "(?:Z|([+-])(\\d\\d)(?::?(\\d\\d)(?::?(\\d\\d))?)?)?)?");

    /** Return the seconds since 1970 of a date or time in ISO 8601; without a zone it is in UTC. */
    private static double secondsOf(String text) {
        Matcher parts = TIME.matcher(text);
        if (!parts.matches()) {
            throw new IllegalArgumentException("'" + text + "' is not a number or time");
        }
        long days;
        try {
            days = LocalDate.parse(parts.group(1)).toEpochDay();
        } catch (java.time.DateTimeException error) {
            throw new IllegalArgumentException("'" + text + "' is not a date", error);
        }
        long[] clock = new long[6];
        int[] groups = {2, 3, 4, 7, 8, 9};
        for (int i = 0; i < 6; i++) {
            clock[i] = parts.group(groups[i]) == null ? 0 : Long.parseLong(parts.group(groups[i]));
        }
        if (clock[0] > 23 || clock[1] > 59 || clock[2] > 59 || text.startsWith("0000")) {
            throw new IllegalArgumentException("'" + text + "' is not a time");
        }
        long offset = clock[3] * 3600 + clock[4] * 60 + clock[5];
        if ("-".equals(parts.group(6))) {
            offset = -offset;
        }
        String digits = parts.group(5) == null ? "" : parts.group(5);
        long microseconds = Long.parseLong((digits + "000000").substring(0, 6));
        long whole = days * 86400L + clock[0] * 3600 + clock[1] * 60 + clock[2] - offset;
        return whole + 1000 * microseconds / 1e9;
    }

    private static boolean isMissing(Object value) {
        return value == null
                || value instanceof Double && ((Double) value).isNaN()
                || value instanceof Float && ((Float) value).isNaN();
    }

    /** Return a feature as a number; NaN where it is missing and the model has a rule for that. */
    private static double featureOf(String name, Object value) {
        if (MISSING != null && isMissing(value)) {
            return Double.NaN;
        }
        double number = Double.NaN;
        if (value instanceof Number || value instanceof Boolean) {
            number = numberOf(value);
        }
        if (Double.isNaN(number) || Double.isInfinite(number)) {
            throw new IllegalArgumentException("feature '" + name + "' is " + value + ", not a finite number");
        }
        return number;
    }

    // -- raw columns: features of a row as increasing {feature, value}

    /** Return the bytes of a text in UTF-8; a lone surrogate has three. */
    private static byte[] utf8(String text) {
        byte[] bytes = new byte[3 * text.length()];
        int n = 0;
        for (int i = 0; i < text.length(); i++) {
            int code = text.codePointAt(i);
            if (code < 0x80) {
                bytes[n++] = (byte) code;
                continue;
            }
            int shift = code < 0x800 ? 6 : code < 0x10000 ? 12 : 18;
            int mark = code < 0x800 ? 0xc0 : code < 0x10000 ? 0xe0 : 0xf0;
            bytes[n++] = (byte) (mark | code >> shift);
            while (shift > 0) {
                shift -= 6;
                bytes[n++] = (byte) (0x80 | code >> shift & 63);
            }
            if (code >= 0x10000) {
                i++;
            }
        }
        return Arrays.copyOf(bytes, n);
    }

    private static final String[] SIGMA = {
        "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
        "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0",
    };
    private static final long[] START = {
        0x6a09e667f3bcc908L, 0xbb67ae8584caa73bL, 0x3c6ef372fe94f82bL, 0xa54ff53a5f1d36f1L,
        0x510e527fade682d1L, 0x9b05688c2b3e6c1fL, 0x1f83d9abfb41bd6bL, 0x5be0cd19137e2179L,
    };

    private static void mix(long[] v, int a, int b, int c, int d, long x, long y) {
        v[a] += v[b] + x;
        v[d] = Long.rotateRight(v[d] ^ v[a], 32);
        v[c] += v[d];
        v[b] = Long.rotateRight(v[b] ^ v[c], 24);
        v[a] += v[b] + y;
        v[d] = Long.rotateRight(v[d] ^ v[a], 16);
        v[c] += v[d];
        v[b] = Long.rotateRight(v[b] ^ v[c], 63);
    }

    /** Return the first word of BLAKE2b with a digest of 8 bytes (RFC 7693). */
    private static long blake2b(byte[] bytes) {
        long[] state = START.clone();
        state[0] ^= 0x01010008L;
        int blocks = Math.max(1, (bytes.length + 127) / 128);
        byte[] padded = Arrays.copyOf(bytes, blocks * 128);
        for (int block = 0; block < blocks; block++) {
            long[] m = new long[16];
            for (int i = 127; i >= 0; i--) {
                m[i / 8] = m[i / 8] << 8 | padded[block * 128 + i] & 0xff;
            }
            long[] v = Arrays.copyOf(state, 16);
            System.arraycopy(START, 0, v, 8, 8);
            v[12] ^= Math.min(bytes.length, (block + 1) * 128);
            if (block == blocks - 1) {
                v[14] = ~v[14];
            }
            for (int round = 0; round < 12; round++) {
                long[] s = new long[16];
                for (int i = 0; i < 16; i++) {
                    s[i] = m[Character.digit(SIGMA[round % 10].charAt(i), 16)];
                }
                for (int i = 0; i < 4; i++) {
                    mix(v, i, i + 4, i + 8, i + 12, s[2 * i], s[2 * i + 1]);
                }
                for (int i = 0; i < 4; i++) {
                    mix(v, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4, s[8 + 2 * i], s[9 + 2 * i]);
                }
            }
            for (int i = 0; i < 8; i++) {
                state[i] ^= v[i] ^ v[i + 8];
            }
        }
        return state[0];
    }

    private static final List<String> NUMERIC = new ArrayList<>();
    private static final List<Object> ONE_HOT = new ArrayList<>();
    private static final List<Object> BINNED = new ArrayList<>();
    private static final List<List<String>> HASHED = new ArrayList<>();
    private static final Map<String, Integer> STARTS = new HashMap<>();
    private static final Map<String, Map<String, Integer>> VALUES = new HashMap<>();
    private static final Map<String, double[]> CUTS = new HashMap<>();
    /** Columns that a weight needs; others are not read. */
    private static final Set<String> REQUIRED = new HashSet<>();
    /** Columns that are numbers, and categories of their numbers in crosses. */
    private static final Set<String> CROSSED_NUMBERS = new HashSet<>();
    private static final int HASH_START;
    private static final boolean READS_HASHED;
    private static final Map<String, Integer> PLACES = new ConcurrentHashMap<>();

    static {
        int start = 0;
        if (COLUMNS != null) {
            list(COLUMNS.get("numeric")).forEach(name -> NUMERIC.add((String) name));
            ONE_HOT.addAll(list(COLUMNS.get("one_hot")));
            BINNED.addAll(list(COLUMNS.get("binned")));
            for (String name : NUMERIC) {
                if (isUsed(start, start + 1)) {
                    REQUIRED.add(name);
                }
                start++;
            }
            for (Object field : ONE_HOT) {
                List<Object> texts = list(object(field).get("values"));
                Map<String, Integer> places = new HashMap<>();
                for (int k = 0; k < texts.size(); k++) {
                    places.put((String) texts.get(k), k);
                }
                VALUES.put(column(field), places);
                start = addField(column(field), start, texts.size());
            }
            for (Object field : BINNED) {
                double[] cuts = numbers(object(field).get("cuts"));
                CUTS.put(column(field), cuts);
                start = addField(column(field), start, cuts.length + 2);
            }
            Set<String> numbers = new HashSet<>(NUMERIC);
            numbers.addAll(CUTS.keySet());
            for (Object name : list(COLUMNS.get("hashed"))) {
                HASHED.add(List.of((String) name));
            }
            for (Object cross : list(COLUMNS.get("crosses"))) {
                List<String> names = new ArrayList<>();
                list(cross).forEach(name -> names.add((String) name));
                HASHED.add(names);
                CROSSED_NUMBERS.addAll(names);
            }
            CROSSED_NUMBERS.retainAll(numbers);
        }
        HASH_START = start;
        READS_HASHED = isUsed(start, Double.POSITIVE_INFINITY);
        if (READS_HASHED) {
            HASHED.forEach(REQUIRED::addAll);
        }
    }

    private static int addField(String column, int start, int size) {
        STARTS.put(column, start);
        if (isUsed(start, start + size)) {
            REQUIRED.add(column);
        }
        return start + size;
    }

    /** Return whether a feature from low up to high has a weight, or adds to the score if missing. */
    private static boolean isUsed(double low, double high) {
        for (double[] features : new double[][] {FEATURES, FILLED}) {
            int k = Arrays.binarySearch(features, low);
            k = k < 0 ? -k - 1 : k;
            if (k < features.length && features[k] < high) {
                return true;
            }
        }
        return false;
    }

    private static String column(Object field) {
        return (String) object(field).get("column");
    }

    private static String text(Map<String, ?> row, String name) {
        Object value = row.get(name);
        return textOf(CROSSED_NUMBERS.contains(name) ? (Object) numberOf(value) : value);
    }

    private static int hashedFeature(Map<String, ?> row, List<String> names) {
        StringBuilder key = new StringBuilder();
        names.forEach(name -> key.append(name).append('\u001f'));
        List<String> texts = new ArrayList<>();
        names.forEach(name -> texts.add(text(row, name)));
        if (texts.contains("")) {
            return -1;
        }
        key.append(String.join("\u001f", texts));
        // Keeps the memory of a long run bounded.
        if (PLACES.size() >= 1 << 18) {
            PLACES.clear();
        }
        return PLACES.computeIfAbsent(key.toString(), unit -> {
            long mask = (1L << (Long) COLUMNS.get("hash_bits")) - 1;
            return HASH_START + (int) (blake2b(utf8(unit)) & mask);
        });
    }

    private static List<double[]> encode(Map<String, ?> row) {
        List<double[]> entries = new ArrayList<>();
        for (int j = 0; j < NUMERIC.size(); j++) {
            String name = NUMERIC.get(j);
            double x = REQUIRED.contains(name) ? numberOf(row.get(name)) : Double.NaN;
            if (Double.isInfinite(x)) {
                throw new IllegalArgumentException("column '" + name + "' is infinite");
            }
            if (x != 0 && (MISSING != null || !Double.isNaN(x))) {
                entries.add(new double[] {j, x});
            }
        }
        List<Integer> features = new ArrayList<>();
        for (Object field : ONE_HOT) {
            String name = column(field);
            Integer place = REQUIRED.contains(name) ? VALUES.get(name).get(text(row, name)) : null;
            if (place != null) {
                features.add(STARTS.get(name) + place);
            }
        }
        for (Object field : BINNED) {
            String name = column(field);
            double x = REQUIRED.contains(name) ? numberOf(row.get(name)) : Double.NaN;
            features.add(STARTS.get(name) + cell(CUTS.get(name), x, false));
        }
        if (READS_HASHED) {
            for (List<String> names : HASHED) {
                int feature = hashedFeature(row, names);
                if (feature >= 0) {
                    features.add(feature);
                }
            }
        }
        Collections.sort(features);
        double previous = -1;
        for (int feature : features) {
            if (feature == previous) {
                entries.get(entries.size() - 1)[1] += 1;
            } else {
                entries.add(new double[] {feature, 1});
            }
            previous = feature;
        }
        return entries;
    }

    // -- weights of features

    private static double weight(double feature) {
        int k = Arrays.binarySearch(FEATURES, feature);
        return k < 0 ? 0 : WEIGHTS[k];
    }

    /** Return the exact sum of numbers, rounded once (Shewchuk 1997). */
    private static double exactSum(List<double[]> entries) {
        double[] partials = new double[64];
        int count = 0;
        for (double[] entry : entries) {
            double x = weight(entry[0]) * entry[1];
            int n = 0;
            for (int k = 0; k < count; k++) {
                double y = partials[k];
                if (Math.abs(x) < Math.abs(y)) {
                    double larger = y;
                    y = x;
                    x = larger;
                }
                double high = x + y;
                double low = y - (high - x);
                if (low != 0) {
                    partials[n++] = low;
                }
                x = high;
            }
            if (Double.isNaN(x) || Double.isInfinite(x)) {
                return x;
            }
            count = n;
            if (x != 0) {
                partials[count++] = x;
            }
        }
        double high = count == 0 ? 0 : partials[--count];
        double low = 0;
        while (count > 0 && low == 0) {
            double x = high;
            double y = partials[--count];
            high = x + y;
            low = y - (high - x);
        }
        // At a tie, the sign of the next partial sum decides the direction.
        if (count > 0 && low < 0 == partials[count - 1] < 0) {
            double twice = low * 2;
            if (twice == high + twice - high) {
                high += twice;
            }
        }
        return high;
    }

    /** Add products in four partial sums, as rankine does. */
    private static double product(List<double[]> entries) {
        double[] sums = new double[4];
        int whole = entries.size() - entries.size() % 4;
        for (int k = 0; k < entries.size(); k++) {
            sums[k < whole ? k % 4 : 0] += entries.get(k)[1] * weight(entries.get(k)[0]);
        }
        return sums[0] + sums[1] + (sums[2] + sums[3]);
    }

    private static final Map<String, Double> POSITIONS = new HashMap<>();
    private static final Map<String, Double> INDICATORS = new HashMap<>();

    static {
        List<Object> names = list(DOCUMENT.get("names"));
        for (int k = 0; k < FEATURES.length; k++) {
            String number = Long.toString((long) FEATURES[k] + (Long) DOCUMENT.get("base"));
            POSITIONS.put(names.isEmpty() ? number : (String) names.get(k), FEATURES[k]);
        }
        List<Object> missingNames = list(DOCUMENT.get("missing_names"));
        for (int k = 0; k < missingNames.size() && RULE.equals("indicator"); k++) {
            INDICATORS.put((String) missingNames.get(k), FILLED[k]);
        }
    }

    /** List the weighted features of a row. */
    private static List<double[]> readFeatures(Map<String, ?> row) {
        List<double[]> entries = new ArrayList<>();
        for (Map.Entry<String, ?> entry : row.entrySet()) {
            Double feature = POSITIONS.get(entry.getKey());
            if (feature != null) {
                entries.add(new double[] {feature, featureOf(entry.getKey(), entry.getValue())});
            } else if (INDICATORS.containsKey(entry.getKey()) && isMissing(entry.getValue())) {
                entries.add(new double[] {INDICATORS.get(entry.getKey()), Double.NaN});
            }
        }
        entries.sort(Comparator.comparingDouble(entry -> entry[0]));
        return entries;
    }

    /** Fill missing values in place; return what they add to the scores. */
    private static double[] fill(List<List<double[]>> rows) {
        Map<Double, Double> lowest = new HashMap<>();
        if (RULE.equals("query_min")) {
            Map<Double, Integer> counts = new HashMap<>();
            for (List<double[]> entries : rows) {
                for (double[] entry : entries) {
                    counts.merge(entry[0], 1, Integer::sum);
                    if (!Double.isNaN(entry[1])) {
                        lowest.merge(entry[0], entry[1], Math::min);
                    }
                }
            }
            // A row that does not have the feature has a zero there.
            counts.forEach((feature, count) -> {
                if (count < rows.size()) {
                    lowest.merge(feature, 0.0, Math::min);
                }
            });
        }
        double[] added = new double[rows.size()];
        for (int i = 0; i < added.length; i++) {
            for (double[] entry : rows.get(i)) {
                if (!Double.isNaN(entry[1])) {
                    continue;
                }
                int k = Arrays.binarySearch(FILLED, entry[0]);
                double constant = k < 0 ? 0 : CONSTANTS[k];
                entry[1] = 0;
                if (RULE.equals("indicator")) {
                    added[i] += constant;
                } else if (RULE.equals("mean")) {
                    entry[1] = constant;
                } else if (RULE.equals("query_min")) {
                    entry[1] = lowest.getOrDefault(entry[0], 0.0);
                }
            }
        }
        return added;
    }

    /** Divide each feature by its range within the list, in place. */
    private static void scale(List<List<double[]>> rows) {
        // Feature -> smallest and largest value, number of values
        Map<Double, double[]> ranges = new HashMap<>();
        for (List<double[]> entries : rows) {
            for (double[] entry : entries) {
                double[] range = ranges.computeIfAbsent(entry[0], feature -> new double[] {entry[1], entry[1], 0});
                range[0] = Math.min(range[0], entry[1]);
                range[1] = Math.max(range[1], entry[1]);
                range[2]++;
            }
        }
        for (double[] range : ranges.values()) {
            if (range[2] < rows.size()) {
                range[0] = Math.min(range[0], 0);
                range[1] = Math.max(range[1], 0);
            }
        }
        for (List<double[]> entries : rows) {
            for (double[] entry : entries) {
                double[] range = ranges.get(entry[0]);
                double half = range[1] * 0.5 - range[0] * 0.5;
                entry[1] = half == 0 ? 0 : entry[1] * 0.5 / half;
            }
        }
    }

    private static double[] featureScores(List<? extends Map<String, ?>> rows) {
        List<List<double[]>> lists = new ArrayList<>();
        for (Map<String, ?> row : rows) {
            lists.add(COLUMNS == null ? readFeatures(row) : encode(row));
        }
        if (list(DOCUMENT.get("transforms")).isEmpty()) {
            return lists.stream().mapToDouble(@CLASS@::exactSum).toArray();
        }
        double[] result = MISSING == null ? new double[lists.size()] : fill(lists);
        if (SCALES_LISTS) {
            scale(lists);
        }
        for (int i = 0; i < result.length; i++) {
            result[i] = product(lists.get(i)) + result[i];
        }
        return result;
    }

    // -- tables

    /** Return the cell of a value: by order of the cuts, or the category; missing values are last. */
    private static int cell(double[] cuts, double x, boolean unordered) {
        if (Double.isNaN(x)) {
            return cuts.length + 1;
        }
        int low = 0;
        for (int high = cuts.length; low < high;) {
            int middle = (low + high) / 2;
            if (x < cuts[middle]) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        if (!unordered) {
            return low;
        }
        return low > 0 && cuts[low - 1] == x ? low - 1 : cuts.length;
    }

    private static double tableNumber(Map<String, ?> row, int j, boolean linear) {
        if (COLUMNS != null) {
            if (j < NUMERIC.size()) {
                return numberOf(row.get(NUMERIC.get(j)));
            }
            String name = column(ONE_HOT.get(j - NUMERIC.size()));
            String text = textOf(row.get(name));
            Integer place = VALUES.get(name).get(text);
            return text.isEmpty() ? Double.NaN : place == null ? Double.POSITIVE_INFINITY : place;
        }
        List<Object> names = list(BINS.get("names"));
        String name = names.isEmpty() ? Long.toString(j + (Long) DOCUMENT.get("base")) : (String) names.get(j);
        Object value = row.get(name);
        if (value == null) {
            return linear ? 0 : Double.NaN;
        }
        if (value instanceof Number || value instanceof Boolean) {
            return numberOf(value);
        }
        throw new IllegalArgumentException("column '" + name + "' is '" + value + "', not a number");
    }

    private static final List<double[]> TABLE_CUTS = new ArrayList<>();
    private static final Set<Integer> LINEAR = new HashSet<>();
    private static final Set<Integer> UNORDERED = new HashSet<>();

    static {
        if (BINS != null) {
            list(BINS.get("cuts")).forEach(cuts -> TABLE_CUTS.add(numbers(cuts)));
            list(BINS.get("linear")).forEach(j -> LINEAR.add(((Long) j).intValue()));
            list(BINS.get("unordered")).forEach(j -> UNORDERED.add(((Long) j).intValue()));
        }
    }

    private static double[] tableScores(List<? extends Map<String, ?>> rows) {
        return rows.stream().mapToDouble(@CLASS@::tableScore).toArray();
    }

    /** Add up the entries of all tables of a row. */
    private static double tableScore(Map<String, ?> row) {
        int n = TABLE_CUTS.size();
        double[] numbers = new double[n];
        int[] cells = new int[n];
        double score = 0;
        int start = 0;
        for (int j = 0; j < n; j++) {
            boolean linear = LINEAR.contains(j);
            numbers[j] = tableNumber(row, j, linear);
            cells[j] = cell(TABLE_CUTS.get(j), numbers[j], UNORDERED.contains(j));
            if (!linear) {
                score += weight(start + cells[j]);
                start += TABLE_CUTS.get(j).length + 2;
            }
        }
        if (GRIDS != null) {
            List<Object> axes = list(GRIDS.get("axes"));
            for (Object pair : list(GRIDS.get("pairs"))) {
                int[] positions = new int[2];
                int[] sizes = new int[2];
                for (int side = 0; side < 2; side++) {
                    Map<String, Object> axis = object(axes.get(((Long) list(pair).get(side)).intValue()));
                    List<Object> places = list(axis.get("cells"));
                    int cell = cells[((Long) axis.get("column")).intValue()];
                    positions[side] = ((Long) places.get(cell)).intValue();
                    sizes[side] = 1 + places.stream().mapToInt(place -> ((Long) place).intValue()).max().orElse(0);
                }
                score += weight(start + positions[0] * sizes[1] + positions[1]);
                start += sizes[0] * sizes[1];
            }
        }
        for (int j = 0; j < n; j++) {
            if (LINEAR.contains(j)) {
                score += weight(start++) * numbers[j];
            }
        }
        return score;
    }

    // -- JSON

    @SuppressWarnings("unchecked")
    private static Map<String, Object> object(Object value) {
        return (Map<String, Object>) value;
    }

    @SuppressWarnings("unchecked")
    private static List<Object> list(Object value) {
        return value == null ? List.of() : (List<Object>) value;
    }

    private static double[] numbers(Object value) {
        return list(value).stream().mapToDouble(number -> ((Number) number).doubleValue()).toArray();
    }

    private static Map<String, Object> transform(String type) {
        for (Object spec : list(DOCUMENT.get("transforms"))) {
            if (type.equals(object(spec).get("type"))) {
                return object(spec);
            }
        }
        return null;
    }

    /** Parse JSON; integers become Long or BigInteger. NaN and Infinity are numbers. */
    private static Object parse(String text) {
        int[] at = {0};
        Object value = parseValue(text, at);
        if (next(text, at) != 0) {
            throw new IllegalArgumentException("unexpected text at character " + at[0]);
        }
        return value;
    }

    /** Skip white space and return the next character; 0 at the end. */
    private static char next(String text, int[] at) {
        while (at[0] < text.length() && text.charAt(at[0]) <= ' ') {
            at[0]++;
        }
        return at[0] < text.length() ? text.charAt(at[0]) : 0;
    }

    private static Object parseValue(String text, int[] at) {
        char first = next(text, at);
        if (first == '{' || first == '[') {
            char end = first == '{' ? '}' : ']';
            Map<String, Object> entries = new LinkedHashMap<>();
            List<Object> items = new ArrayList<>();
            at[0]++;
            while (next(text, at) != end) {
                Object value = parseValue(text, at);
                if (first == '{') {
                    expect(text, at, ':');
                    entries.put((String) value, parseValue(text, at));
                } else {
                    items.add(value);
                }
                if (next(text, at) != end) {
                    expect(text, at, ',');
                }
            }
            at[0]++;
            return first == '{' ? entries : items;
        }
        if (first == '"') {
            return parseString(text, at);
        }
        int start = at[0];
        while (at[0] < text.length() && ",]}: \t\r\n".indexOf(text.charAt(at[0])) < 0) {
            at[0]++;
        }
        String word = text.substring(start, at[0]);
        switch (word) {
            case "null":
                return null;
            case "true":
                return true;
            case "false":
                return false;
            default:
        }
        if (!word.matches("-?\\d+")) {
            return Double.valueOf(word);
        }
        BigInteger integer = new BigInteger(word);
        return integer.bitLength() < 64 ? (Object) integer.longValue() : integer;
    }

    private static void expect(String text, int[] at, char character) {
        if (next(text, at) != character) {
            throw new IllegalArgumentException("expected " + character + " at character " + at[0]);
        }
        at[0]++;
    }

    private static String parseString(String text, int[] at) {
        StringBuilder value = new StringBuilder();
        for (at[0]++; text.charAt(at[0]) != '"'; at[0]++) {
            char character = text.charAt(at[0]);
            if (character == '\\') {
                character = text.charAt(++at[0]);
                int code = "bfnrt".indexOf(character);
                if (code >= 0) {
                    character = "\b\f\n\r\t".charAt(code);
                } else if (character == 'u') {
                    character = (char) Integer.parseInt(text.substring(at[0] + 1, at[0] + 5), 16);
                    at[0] += 4;
                }
            }
            value.append(character);
        }
        at[0]++;
        return value.toString();
    }
}
