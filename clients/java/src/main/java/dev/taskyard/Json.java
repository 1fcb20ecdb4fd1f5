package dev.taskyard;

import com.google.protobuf.ByteString;
import com.google.protobuf.ListValue;
import com.google.protobuf.NullValue;
import com.google.protobuf.Struct;
import com.google.protobuf.Value;
import dev.taskyard.v1.Payload;
import dev.taskyard.v1.Task;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * JSON values as plain Java values, for the {@code params} and the {@code result} of tasks.
 *
 * <p>Plain values are null, booleans, numbers, strings, lists of plain values and maps from strings to plain values. Lists
 * and maps nest 30 levels at most, which is the limit of the server. Numbers travel as doubles. Longs and BigIntegers beyond
 * 2<sup>53</sup>, of which those lose the last digits, are refused; {@link Exact} sends them whole.
 */
public final class Json {
    private static final int MAX_DEPTH = 30;

    /** Every whole number up to here is a double. */
    private static final BigInteger MAX_WHOLE = BigInteger.ONE.shiftLeft(53);

    /** A whole number that a double does not hold. */
    static final class InexactException extends IllegalArgumentException {
        private static final long serialVersionUID = 1L;

        InexactException(String field, Number number) {
            super((field.isEmpty() ? "" : field + ": ") + number
                    + " does not fit: numbers travel as doubles, and whole ones lose digits beyond 2^53; send an Exact");
        }
    }

    private Json() {}

    /**
     * A JSON object for a request.
     *
     * @param plain a map from strings to plain values
     * @return the same as a message
     * @throws IllegalArgumentException if a value is not plain, a whole number is beyond 2<sup>53</sup>, a list or map
     *     contains itself, or they nest deeper than 30 levels
     */
    public static Struct struct(Map<String, ?> plain) {
        return structOf(plain);
    }

    static Struct structOf(Map<?, ?> plain) {
        return new Encoder(true).struct(plain);
    }

    /**
     * A JSON value for a request.
     *
     * @param plain a plain value
     * @return the same as a message
     * @throws IllegalArgumentException if a value is not plain, a whole number is beyond 2<sup>53</sup>, a list or map
     *     contains itself, or they nest deeper than 30 levels
     */
    public static Value value(Object plain) {
        return new Encoder(true).value(plain);
    }

    /**
     * A value as JSON in UTF-8, for the {@code input} of a task that is submitted and for its {@code output}. Whole numbers
     * keep all of their digits.
     *
     * @param plain a plain value
     * @return the same as a message
     * @throws IllegalArgumentException if a value is not plain, a list or map contains itself, or they nest deeper than 30
     *     levels
     */
    public static Payload payload(Object plain) {
        // It finds what is not plain.
        new Encoder(false).value(plain);
        return Payload.newBuilder()
                .setData(ByteString.copyFromUtf8(JsonText.of(plain)))
                .build();
    }

    /**
     * A value that was sent as JSON in UTF-8.
     *
     * @param payload the {@code input} or {@code output} of a task
     * @return a plain value; whole numbers are Longs, or BigIntegers where they are larger, others Doubles
     * @throws IllegalArgumentException if it has an encoding, which only the programs with that codec can read, or is not
     *     JSON
     */
    public static Object plain(Payload payload) {
        if (!payload.getEncoding().isEmpty()) {
            throw new IllegalArgumentException("unknown encoding '" + payload.getEncoding() + "'");
        }
        return JsonText.read(payload.getData().toStringUtf8());
    }

    /**
     * The input of a task, however it travels.
     *
     * @param task the task
     * @return its {@code input} as a plain value, else its {@code params}, an empty map if there are none
     * @throws IllegalArgumentException if it has an encoding or is not JSON
     */
    public static Object input(Task task) {
        return task.hasInput() ? plain(task.getInput()) : plain(task.getParams());
    }

    /**
     * The output of a task that is done, however it travels.
     *
     * @param task the task
     * @return its {@code output} as a plain value, else its {@code result}; null if there is none
     * @throws IllegalArgumentException if it has an encoding or is not JSON
     */
    public static Object output(Task task) {
        return task.hasOutput() ? plain(task.getOutput()) : plain(task.getResult());
    }

    /**
     * A JSON object of an answer.
     *
     * @param struct the message
     * @return a map with the order of the message; whole numbers up to 2<sup>53</sup> are Longs, others Doubles
     */
    public static Map<String, Object> plain(Struct struct) {
        Map<String, Object> map = new LinkedHashMap<>();
        struct.getFieldsMap().forEach((key, value) -> map.put(key, plain(value)));
        return map;
    }

    /**
     * A JSON value of an answer.
     *
     * @param value the message; an empty one stands for null
     * @return a plain value, with numbers as in {@link #plain(Struct)}
     */
    public static Object plain(Value value) {
        return switch (value.getKindCase()) {
            case BOOL_VALUE -> value.getBoolValue();
            case NUMBER_VALUE -> number(value.getNumberValue());
            case STRING_VALUE -> value.getStringValue();
            case STRUCT_VALUE -> plain(value.getStructValue());
            case LIST_VALUE -> {
                List<Object> list = new ArrayList<>();
                value.getListValue().getValuesList().forEach(item -> list.add(plain(item)));
                yield list;
            }
            default -> null;
        };
    }

    static Object number(double number) {
        // Not a conditional expression: that would convert the long back to a double.
        if (number == Math.rint(number) && Math.abs(number) <= 1L << 53) {
            return (long) number;
        }
        return number;
    }

    /** Encodes one value. It keeps the lists and maps around the present position, to find those that contain themselves. */
    private static final class Encoder {
        private final Set<Object> open = Collections.newSetFromMap(new IdentityHashMap<>());

        /** The names and positions that lead to the present position. */
        private final Deque<String> path = new ArrayDeque<>();

        /** Whether whole numbers that are no doubles are refused. */
        private final boolean isExact;

        Encoder(boolean isExact) {
            this.isExact = isExact;
        }

        Value value(Object plain) {
            Value.Builder value = Value.newBuilder();
            if (plain == null) {
                return value.setNullValue(NullValue.NULL_VALUE).build();
            } else if (plain instanceof Boolean truth) {
                return value.setBoolValue(truth).build();
            } else if (plain instanceof Number number) {
                return value.setNumberValue(number(number)).build();
            } else if (plain instanceof CharSequence text) {
                return value.setStringValue(text.toString()).build();
            } else if (plain instanceof Map<?, ?> map) {
                return value.setStructValue(struct(map)).build();
            } else if (plain instanceof Iterable<?> items) {
                return value.setListValue(list(items)).build();
            }
            throw new IllegalArgumentException(plain.getClass().getName() + " is not a JSON value");
        }

        Struct struct(Map<?, ?> map) {
            enter(map);
            Struct.Builder struct = Struct.newBuilder();
            map.forEach((key, item) -> {
                if (!(key instanceof String name)) {
                    throw new IllegalArgumentException("the keys of a JSON object are strings, not " + key);
                }
                path.addLast(path.isEmpty() ? name : "." + name);
                struct.putFields(name, value(item));
                path.removeLast();
            });
            open.remove(map);
            return struct.build();
        }

        private ListValue list(Iterable<?> items) {
            enter(items);
            ListValue.Builder list = ListValue.newBuilder();
            int position = 0;
            for (Object item : items) {
                path.addLast("[" + position++ + "]");
                list.addValues(value(item));
                path.removeLast();
            }
            open.remove(items);
            return list.build();
        }

        private void enter(Object container) {
            if (!open.add(container)) {
                String kind = container instanceof Map ? "map" : "list";
                throw new IllegalArgumentException("a " + kind + " that contains itself is not a JSON value");
            }
            if (open.size() > MAX_DEPTH) {
                throw new IllegalArgumentException("a JSON value must not nest deeper than " + MAX_DEPTH + " levels");
            }
        }

        private double number(Number number) {
            double nearest = finite(number.doubleValue());
            if (isExact && Math.abs(nearest) >= MAX_WHOLE.doubleValue() && isWhole(number)) {
                BigInteger whole = new BigDecimal(number.toString()).toBigInteger();
                if (whole.abs().compareTo(MAX_WHOLE) > 0) {
                    throw new InexactException(String.join("", path), number);
                }
            }
            return nearest;
        }

        private static boolean isWhole(Number number) {
            return number instanceof Long
                    || number instanceof BigInteger
                    || number instanceof BigDecimal decimal && decimal.scale() <= 0;
        }

        private static double finite(double number) {
            if (Double.isFinite(number)) {
                return number;
            }
            throw new IllegalArgumentException(number + " is not a JSON number");
        }
    }
}
