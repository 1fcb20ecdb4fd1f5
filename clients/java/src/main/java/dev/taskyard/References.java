package dev.taskyard;

import com.google.protobuf.ByteString;
import com.google.protobuf.Struct;
import com.google.protobuf.Value;
import dev.taskyard.v1.Artifact;
import dev.taskyard.v1.Payload;
import dev.taskyard.v1.Task;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;

/** References in the place of values that are too large, and are artifacts of the task (docs/rules.md, Artifacts). */
final class References {
    /** The names of the artifacts that params and results become. */
    static final String PARAMS = "params.json";

    static final String RESULT = "result.json";
    static final String JSON = "application/json";
    private static final String KEY = "$artifact";

    /** A value that is an artifact. {@code encoding} names the codec of its bytes; it is empty if they are JSON. */
    record Reference(String sha256, String encoding) {
        /** The value, as a task has it. */
        Payload payload(ByteString data) {
            Payload.Builder payload = Payload.newBuilder().setData(data);
            return encoding.isEmpty() ? payload.build() : payload.setEncoding(encoding).build();
        }
    }

    private References() {}

    /** What stands in the place of a value; {@code href} is null for none. */
    static Struct to(Artifact artifact, String encoding, String href) {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("name", artifact.getName());
        told.put("sizeBytes", artifact.getSizeBytes());
        told.put("sha256", artifact.getSha256());
        if (!encoding.isEmpty()) {
            told.put("encoding", encoding);
        }
        if (href != null) {
            told.put("href", href);
        }
        return Json.struct(Map.of(KEY, told));
    }

    /** The reference that a value is to the artifact of this name; empty if it is none, or the task has no such artifact. */
    static Optional<Reference> in(Struct value, String name, Task task) {
        Map<String, Value> told =
                value.getFieldsOrDefault(KEY, Value.getDefaultInstance()).getStructValue().getFieldsMap();
        boolean isOne = value.getFieldsCount() == 1
                && textOf(told, "name").equals(name)
                && !textOf(told, "sha256").isEmpty()
                && task.getArtifactsList().stream().anyMatch(each -> each.getName().equals(name));
        return isOne ? Optional.of(new Reference(textOf(told, "sha256"), textOf(told, "encoding"))) : Optional.empty();
    }

    /** A task that has ended with its output, which is read where its result is an artifact. */
    static Task whole(Task ended, Supplier<byte[]> read) {
        Reference reference = ended.hasOutput()
                ? null
                : in(ended.getResult().getStructValue(), RESULT, ended).orElse(null);
        // A handler may return what looks like a reference.
        if (reference == null || !hasBytes(ended, RESULT, reference)) {
            return ended;
        }
        return ended.toBuilder()
                .setOutput(reference.payload(ByteString.copyFrom(read.get())))
                .build();
    }

    /** Whether a task has the artifact of this name with the bytes that a reference names. */
    static boolean hasBytes(Task task, String name, Reference reference) {
        return task.getArtifactsList().stream()
                .anyMatch(each -> each.getName().equals(name) && each.getSha256().equals(reference.sha256()));
    }

    private static String textOf(Map<String, Value> told, String key) {
        return told.getOrDefault(key, Value.getDefaultInstance()).getStringValue();
    }
}
