package dev.taskyard;

import com.google.protobuf.ListValue;
import com.google.protobuf.NullValue;
import com.google.protobuf.Struct;
import com.google.protobuf.Value;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * JSON values as plain Java values, for the {@code params} and the {@code result} of tasks.
 *
 * <p>Plain values are null, booleans, numbers, strings, lists of plain values and maps from strings to plain values. Lists
 * and maps nest 30 levels at most, which is the limit of the server. Numbers travel as doubles: whole numbers beyond
 * 2<sup>53</sup> lose precision.
 */
public final class Json {
    private static final int MAX_DEPTH = 30;

    private Json() {}

    /**
     * A JSON object for a request.
     *
     * @param plain a map from strings to plain values
     * @return the same as a message
     * @throws IllegalArgumentException if a value is not plain, a list or map contains itself, or they nest deeper than 30
     *     levels
     */
    public static Struct struct(Map<String, ?> plain) {
        return new Encoder().struct(plain);
    }

    /**
     * A JSON value for a request.
     *
     * @param plain a plain value
     * @return the same as a message
     * @throws IllegalArgumentException if a value is not plain, a list or map contains itself, or they nest deeper than 30
     *     levels
     */
    public static Value value(Object plain) {
        return new Encoder().value(plain);
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

    private static Object number(double number) {
        // Not a conditional expression: that would convert the long back to a double.
        if (number == Math.rint(number) && Math.abs(number) <= 1L << 53) {
            return (long) number;
        }
        return number;
    }

    /** Encodes one value. It keeps the lists and maps around the present position, to find those that contain themselves. */
    private static final class Encoder {
        private final Set<Object> open = Collections.newSetFromMap(new IdentityHashMap<>());

        Value value(Object plain) {
            Value.Builder value = Value.newBuilder();
            if (plain == null) {
                return value.setNullValue(NullValue.NULL_VALUE).build();
            } else if (plain instanceof Boolean truth) {
                return value.setBoolValue(truth).build();
            } else if (plain instanceof Number number) {
                return value.setNumberValue(finite(number.doubleValue())).build();
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
                struct.putFields(name, value(item));
            });
            open.remove(map);
            return struct.build();
        }

        private ListValue list(Iterable<?> items) {
            enter(items);
            ListValue.Builder list = ListValue.newBuilder();
            items.forEach(item -> list.addValues(value(item)));
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

        private static double finite(double number) {
            if (Double.isFinite(number)) {
                return number;
            }
            throw new IllegalArgumentException(number + " is not a JSON number");
        }
    }
}
