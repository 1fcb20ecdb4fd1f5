/**
 * Taskyard for Java: a client that submits tasks and follows them, over the gRPC stubs in {@code dev.taskyard.v1}.
 *
 * <p>{@link dev.taskyard.Taskyard} is the client, {@link dev.taskyard.TaskyardException} what its calls end with when
 * they do not work.
 */
package dev.taskyard;
