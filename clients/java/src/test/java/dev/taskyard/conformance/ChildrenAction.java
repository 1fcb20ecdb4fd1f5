package dev.taskyard.conformance;

import dev.taskyard.ActionFailedException;
import dev.taskyard.Child;
import dev.taskyard.ChildFailedException;
import dev.taskyard.RunningTask;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The handler that has children by name. */
final class ChildrenAction {
    private ChildrenAction() {}

    static Object run(RunningTask task) throws Exception {
        Map<String, Object> params = task.params();
        String action = (String) params.getOrDefault("action", "echo");
        List<Child> children = new ArrayList<>();
        for (Object name : (List<?>) params.get("names")) {
            children.add(task.child((String) name, action, Map.of("n", children.size())));
        }
        List<String> ids = children.stream().map(Child::id).toList();
        List<?> first = task.step("ids", List.class, () -> ids);
        Set<Object> differ = new HashSet<>(first);
        differ.addAll(ids);
        if (Boolean.TRUE.equals(params.get("fail")) && task.attempt() == 1) {
            throw new ActionFailedException("again");
        }
        if (Boolean.TRUE.equals(params.get("join"))) {
            task.join(ids, "all", null);
        }
        List<Object> results = new ArrayList<>();
        for (Child child : children) {
            results.add(resultOf(child));
        }
        return Map.of("results", results, "ids_differ", differ.size());
    }

    private static Object resultOf(Child child) throws InterruptedException {
        try {
            return child.result(Object.class);
        } catch (ChildFailedException failed) {
            return Map.of("child", failed.name(), "state", failed.state().name());
        }
    }
}
