package dev.taskyard.conformance;

import com.google.protobuf.ByteString;
import dev.taskyard.v1.Payload;
import java.util.List;
import java.util.Map;

/** The arguments of a step. Each method returns an argument as its type; an absent one is {@code null}, 0 or false. */
record Arguments(Map<String, Object> given) {
    boolean has(String name) {
        return given.get(name) != null;
    }

    Object any(String name) {
        return given.get(name);
    }

    String text(String name) {
        return (String) given.get(name);
    }

    int number(String name) {
        return has(name) ? ((Number) given.get(name)).intValue() : 0;
    }

    boolean truth(String name) {
        return has(name) && (Boolean) given.get(name);
    }

    @SuppressWarnings("unchecked")
    Map<String, Object> object(String name) {
        return (Map<String, Object>) given.get(name);
    }

    @SuppressWarnings("unchecked")
    List<String> texts(String name) {
        return has(name) ? (List<String>) given.get(name) : List.of();
    }

    /** The payload of these bytes, with the encoding beside them. */
    Payload payload(String name) {
        var payload = Payload.newBuilder().setData(ByteString.copyFromUtf8(text(name)));
        if (has(name + "_encoding")) {
            payload.setEncoding(text(name + "_encoding"));
        }
        return payload.build();
    }
}
