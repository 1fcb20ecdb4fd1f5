package dev.taskyard;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** JSON as text, in which whole numbers keep all of their digits. {@link Json} says what plain values are. */
final class JsonText {
    /** Deeper texts could use up the stack. The server takes 30 levels. */
    private static final int MAX_DEPTH = 100;

    /** The time to read a number grows with the square of its digits. */
    private static final int MAX_DIGITS = 1_000;

    private final String text;
    private int at;

    private JsonText(String text) {
        this.text = text;
    }

    /** Writes values that {@link Json} has found to be plain. */
    static String of(Object plain) {
        StringBuilder text = new StringBuilder();
        write(text, plain);
        return text.toString();
    }

    /** @throws IllegalArgumentException if it is not JSON; the text says where */
    static Object read(String text) {
        JsonText reader = new JsonText(text);
        Object value = reader.value(0);
        reader.skipSpace();
        if (reader.at < text.length()) {
            throw reader.wrong("more than one value");
        }
        return value;
    }

    private static void write(StringBuilder text, Object plain) {
        if (plain instanceof CharSequence characters) {
            quote(text, characters);
        } else if (plain instanceof Map<?, ?> map) {
            String between = "{";
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                text.append(between);
                quote(text, (String) entry.getKey());
                write(text.append(':'), entry.getValue());
                between = ",";
            }
            text.append(map.isEmpty() ? "{}" : "}");
        } else if (plain instanceof Iterable<?> items) {
            String between = "[";
            for (Object item : items) {
                write(text.append(between), item);
                between = ",";
            }
            text.append(between.equals("[") ? "[]" : "]");
        } else {
            // null, booleans and numbers.
            text.append(plain);
        }
    }

    private static void quote(StringBuilder text, CharSequence characters) {
        text.append('"');
        for (int i = 0; i < characters.length(); i++) {
            char each = characters.charAt(i);
            if (each == '"' || each == '\\') {
                text.append('\\').append(each);
            } else if (each < ' ' || Character.isSurrogate(each) && !isPaired(characters, i)) {
                text.append(String.format("\\u%04x", (int) each));
            } else {
                text.append(each);
            }
        }
        text.append('"');
    }

    /** Half of a surrogate pair has no encoding in UTF-8. */
    private static boolean isPaired(CharSequence characters, int i) {
        return Character.isHighSurrogate(characters.charAt(i))
                ? i + 1 < characters.length() && Character.isLowSurrogate(characters.charAt(i + 1))
                : i > 0 && Character.isHighSurrogate(characters.charAt(i - 1));
    }

    private Object value(int depth) {
        if (depth > MAX_DEPTH) {
            throw wrong("nested too deeply");
        }
        skipSpace();
        return switch (peek()) {
            case '{' -> object(depth);
            case '[' -> list(depth);
            case '"' -> string();
            case 't' -> word("true", true);
            case 'f' -> word("false", false);
            case 'n' -> word("null", null);
            default -> number();
        };
    }

    private Map<String, Object> object(int depth) {
        Map<String, Object> map = new LinkedHashMap<>();
        at++;
        if (takes('}')) {
            return map;
        }
        do {
            skipSpace();
            String name = string();
            expect(':');
            map.put(name, value(depth + 1));
        } while (takes(','));
        expect('}');
        return map;
    }

    private List<Object> list(int depth) {
        List<Object> items = new ArrayList<>();
        at++;
        if (takes(']')) {
            return items;
        }
        do {
            items.add(value(depth + 1));
        } while (takes(','));
        expect(']');
        return items;
    }

    private String string() {
        if (peek() != '"') {
            throw wrong("no string");
        }
        StringBuilder found = new StringBuilder();
        for (at++; peek() != '"'; at++) {
            if (peek() < ' ') {
                throw wrong("a control character in a string");
            }
            found.append(peek() == '\\' ? escaped() : peek());
        }
        at++;
        return found.toString();
    }

    private char escaped() {
        at++;
        int known = "\"\\/bfnrt".indexOf(peek());
        if (known >= 0) {
            return "\"\\/\b\f\n\r\t".charAt(known);
        }
        if (peek() == 'u' && text.length() > at + 4 && text.substring(at + 1, at + 5).matches("[0-9a-fA-F]{4}")) {
            at += 4;
            return (char) Integer.parseInt(text.substring(at - 3, at + 1), 16);
        }
        throw wrong("no escape");
    }

    private Object number() {
        int from = at;
        while (at < text.length() && "+-.0123456789eE".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        String found = text.substring(from, at);
        if (found.length() > MAX_DIGITS || !found.matches("-?(0|[1-9]\\d*)(\\.\\d+)?([eE][+-]?\\d+)?")) {
            at = from;
            throw wrong("no value");
        }
        if (found.matches("-?\\d+")) {
            BigInteger whole = new BigInteger(found);
            return whole.bitLength() < Long.SIZE ? (Object) whole.longValue() : whole;
        }
        double number = Double.parseDouble(found);
        if (Double.isInfinite(number)) {
            throw wrong("a number that is too large");
        }
        return Json.number(number);
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw wrong("no value");
        }
        at += word.length();
        return value;
    }

    private boolean takes(char wanted) {
        skipSpace();
        boolean found = peek() == wanted;
        at += found ? 1 : 0;
        return found;
    }

    private void expect(char wanted) {
        if (!takes(wanted)) {
            throw wrong("no '" + wanted + "'");
        }
    }

    private void skipSpace() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private char peek() {
        if (at >= text.length()) {
            throw wrong("ends too early");
        }
        return text.charAt(at);
    }

    private IllegalArgumentException wrong(String what) {
        return new IllegalArgumentException("not JSON: " + what + " at character " + at);
    }
}
