package dev.taskyard;

import com.google.protobuf.ListValue;
import com.google.protobuf.NullValue;
import com.google.protobuf.Struct;
import com.google.protobuf.Value;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * JSON values as plain Java, for the {@code params} and the {@code result} of tasks.
 *
 * <p>Plain are null, booleans, numbers, strings, lists of plain values and maps from strings to them. Numbers travel as
 * doubles: whole ones beyond 2<sup>53</sup> lose precision.
 */
public final class Json {
    private Json() {}

    /** A JSON object for a request. Throws IllegalArgumentException for what is not plain. */
    public static Struct struct(Map<String, ?> plain) {
        Struct.Builder struct = Struct.newBuilder();
        plain.forEach((key, item) -> struct.putFields(key, value(item)));
        return struct.build();
    }

    /** A JSON value for a request. Throws IllegalArgumentException for what is not plain. */
    public static Value value(Object plain) {
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
            return value.setStructValue(structOf(map)).build();
        } else if (plain instanceof Iterable<?> items) {
            ListValue.Builder list = ListValue.newBuilder();
            items.forEach(item -> list.addValues(value(item)));
            return value.setListValue(list).build();
        }
        throw new IllegalArgumentException(plain.getClass().getName() + " is not a JSON value");
    }

    /** A JSON object of an answer: a map in its order, with Doubles, or Longs for whole numbers up to 2^53. */
    public static Map<String, Object> plain(Struct struct) {
        Map<String, Object> map = new LinkedHashMap<>();
        struct.getFieldsMap().forEach((key, value) -> map.put(key, plain(value)));
        return map;
    }

    /** A JSON value of an answer; numbers as for objects. */
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
        // Not a conditional expression: it would make a double of the long.
        if (number == Math.rint(number) && Math.abs(number) <= 1L << 53) {
            return (long) number;
        }
        return number;
    }

    private static double finite(double number) {
        if (Double.isFinite(number)) {
            return number;
        }
        throw new IllegalArgumentException(number + " is not a JSON number");
    }

    private static Struct structOf(Map<?, ?> map) {
        Struct.Builder struct = Struct.newBuilder();
        map.forEach((key, item) -> {
            if (!(key instanceof String name)) {
                throw new IllegalArgumentException("the keys of a JSON object are strings, not " + key);
            }
            struct.putFields(name, value(item));
        });
        return struct.build();
    }
}
