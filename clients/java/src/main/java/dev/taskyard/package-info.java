/**
 * Taskyard for Java: a client that submits tasks and follows them, and hosts that run them, over the gRPC stubs in {@code
 * dev.taskyard.v1}.
 *
 * <p>{@link dev.taskyard.Taskyard} is the client. Its calls fail with a {@link dev.taskyard.TaskyardException}. {@link
 * dev.taskyard.Host} runs the {@link dev.taskyard.Handler} of each action.
 */
package dev.taskyard;
