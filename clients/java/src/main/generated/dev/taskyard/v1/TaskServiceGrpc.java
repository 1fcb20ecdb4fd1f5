package dev.taskyard.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * TaskService takes tasks in, shows them, and ends, interrupts or resumes them.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class TaskServiceGrpc {

  private TaskServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "taskyard.v1.TaskService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.SubmitTaskRequest,
      dev.taskyard.v1.SubmitTaskResponse> getSubmitTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SubmitTask",
      requestType = dev.taskyard.v1.SubmitTaskRequest.class,
      responseType = dev.taskyard.v1.SubmitTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.SubmitTaskRequest,
      dev.taskyard.v1.SubmitTaskResponse> getSubmitTaskMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.SubmitTaskRequest, dev.taskyard.v1.SubmitTaskResponse> getSubmitTaskMethod;
    if ((getSubmitTaskMethod = TaskServiceGrpc.getSubmitTaskMethod) == null) {
      synchronized (TaskServiceGrpc.class) {
        if ((getSubmitTaskMethod = TaskServiceGrpc.getSubmitTaskMethod) == null) {
          TaskServiceGrpc.getSubmitTaskMethod = getSubmitTaskMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.SubmitTaskRequest, dev.taskyard.v1.SubmitTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SubmitTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.SubmitTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.SubmitTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskServiceMethodDescriptorSupplier("SubmitTask"))
              .build();
        }
      }
    }
    return getSubmitTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.SubmitTasksRequest,
      dev.taskyard.v1.SubmitTasksResponse> getSubmitTasksMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SubmitTasks",
      requestType = dev.taskyard.v1.SubmitTasksRequest.class,
      responseType = dev.taskyard.v1.SubmitTasksResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.SubmitTasksRequest,
      dev.taskyard.v1.SubmitTasksResponse> getSubmitTasksMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.SubmitTasksRequest, dev.taskyard.v1.SubmitTasksResponse> getSubmitTasksMethod;
    if ((getSubmitTasksMethod = TaskServiceGrpc.getSubmitTasksMethod) == null) {
      synchronized (TaskServiceGrpc.class) {
        if ((getSubmitTasksMethod = TaskServiceGrpc.getSubmitTasksMethod) == null) {
          TaskServiceGrpc.getSubmitTasksMethod = getSubmitTasksMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.SubmitTasksRequest, dev.taskyard.v1.SubmitTasksResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SubmitTasks"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.SubmitTasksRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.SubmitTasksResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskServiceMethodDescriptorSupplier("SubmitTasks"))
              .build();
        }
      }
    }
    return getSubmitTasksMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.GetTaskRequest,
      dev.taskyard.v1.Task> getGetTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetTask",
      requestType = dev.taskyard.v1.GetTaskRequest.class,
      responseType = dev.taskyard.v1.Task.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.GetTaskRequest,
      dev.taskyard.v1.Task> getGetTaskMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.GetTaskRequest, dev.taskyard.v1.Task> getGetTaskMethod;
    if ((getGetTaskMethod = TaskServiceGrpc.getGetTaskMethod) == null) {
      synchronized (TaskServiceGrpc.class) {
        if ((getGetTaskMethod = TaskServiceGrpc.getGetTaskMethod) == null) {
          TaskServiceGrpc.getGetTaskMethod = getGetTaskMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.GetTaskRequest, dev.taskyard.v1.Task>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetTask"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.GetTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.Task.getDefaultInstance()))
              .setSchemaDescriptor(new TaskServiceMethodDescriptorSupplier("GetTask"))
              .build();
        }
      }
    }
    return getGetTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.ListTasksRequest,
      dev.taskyard.v1.ListTasksResponse> getListTasksMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListTasks",
      requestType = dev.taskyard.v1.ListTasksRequest.class,
      responseType = dev.taskyard.v1.ListTasksResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.ListTasksRequest,
      dev.taskyard.v1.ListTasksResponse> getListTasksMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.ListTasksRequest, dev.taskyard.v1.ListTasksResponse> getListTasksMethod;
    if ((getListTasksMethod = TaskServiceGrpc.getListTasksMethod) == null) {
      synchronized (TaskServiceGrpc.class) {
        if ((getListTasksMethod = TaskServiceGrpc.getListTasksMethod) == null) {
          TaskServiceGrpc.getListTasksMethod = getListTasksMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.ListTasksRequest, dev.taskyard.v1.ListTasksResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListTasks"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ListTasksRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ListTasksResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskServiceMethodDescriptorSupplier("ListTasks"))
              .build();
        }
      }
    }
    return getListTasksMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.CancelTaskRequest,
      dev.taskyard.v1.CancelTaskResponse> getCancelTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CancelTask",
      requestType = dev.taskyard.v1.CancelTaskRequest.class,
      responseType = dev.taskyard.v1.CancelTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.CancelTaskRequest,
      dev.taskyard.v1.CancelTaskResponse> getCancelTaskMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.CancelTaskRequest, dev.taskyard.v1.CancelTaskResponse> getCancelTaskMethod;
    if ((getCancelTaskMethod = TaskServiceGrpc.getCancelTaskMethod) == null) {
      synchronized (TaskServiceGrpc.class) {
        if ((getCancelTaskMethod = TaskServiceGrpc.getCancelTaskMethod) == null) {
          TaskServiceGrpc.getCancelTaskMethod = getCancelTaskMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.CancelTaskRequest, dev.taskyard.v1.CancelTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CancelTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.CancelTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.CancelTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskServiceMethodDescriptorSupplier("CancelTask"))
              .build();
        }
      }
    }
    return getCancelTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.PauseTaskRequest,
      dev.taskyard.v1.PauseTaskResponse> getPauseTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "PauseTask",
      requestType = dev.taskyard.v1.PauseTaskRequest.class,
      responseType = dev.taskyard.v1.PauseTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.PauseTaskRequest,
      dev.taskyard.v1.PauseTaskResponse> getPauseTaskMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.PauseTaskRequest, dev.taskyard.v1.PauseTaskResponse> getPauseTaskMethod;
    if ((getPauseTaskMethod = TaskServiceGrpc.getPauseTaskMethod) == null) {
      synchronized (TaskServiceGrpc.class) {
        if ((getPauseTaskMethod = TaskServiceGrpc.getPauseTaskMethod) == null) {
          TaskServiceGrpc.getPauseTaskMethod = getPauseTaskMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.PauseTaskRequest, dev.taskyard.v1.PauseTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "PauseTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.PauseTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.PauseTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskServiceMethodDescriptorSupplier("PauseTask"))
              .build();
        }
      }
    }
    return getPauseTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.ResumeTaskRequest,
      dev.taskyard.v1.ResumeTaskResponse> getResumeTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ResumeTask",
      requestType = dev.taskyard.v1.ResumeTaskRequest.class,
      responseType = dev.taskyard.v1.ResumeTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.ResumeTaskRequest,
      dev.taskyard.v1.ResumeTaskResponse> getResumeTaskMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.ResumeTaskRequest, dev.taskyard.v1.ResumeTaskResponse> getResumeTaskMethod;
    if ((getResumeTaskMethod = TaskServiceGrpc.getResumeTaskMethod) == null) {
      synchronized (TaskServiceGrpc.class) {
        if ((getResumeTaskMethod = TaskServiceGrpc.getResumeTaskMethod) == null) {
          TaskServiceGrpc.getResumeTaskMethod = getResumeTaskMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.ResumeTaskRequest, dev.taskyard.v1.ResumeTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ResumeTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ResumeTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ResumeTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskServiceMethodDescriptorSupplier("ResumeTask"))
              .build();
        }
      }
    }
    return getResumeTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.ResolveTaskRequest,
      dev.taskyard.v1.ResolveTaskResponse> getResolveTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ResolveTask",
      requestType = dev.taskyard.v1.ResolveTaskRequest.class,
      responseType = dev.taskyard.v1.ResolveTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.ResolveTaskRequest,
      dev.taskyard.v1.ResolveTaskResponse> getResolveTaskMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.ResolveTaskRequest, dev.taskyard.v1.ResolveTaskResponse> getResolveTaskMethod;
    if ((getResolveTaskMethod = TaskServiceGrpc.getResolveTaskMethod) == null) {
      synchronized (TaskServiceGrpc.class) {
        if ((getResolveTaskMethod = TaskServiceGrpc.getResolveTaskMethod) == null) {
          TaskServiceGrpc.getResolveTaskMethod = getResolveTaskMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.ResolveTaskRequest, dev.taskyard.v1.ResolveTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ResolveTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ResolveTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ResolveTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskServiceMethodDescriptorSupplier("ResolveTask"))
              .build();
        }
      }
    }
    return getResolveTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.WaitTaskRequest,
      dev.taskyard.v1.WaitTaskResponse> getWaitTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WaitTask",
      requestType = dev.taskyard.v1.WaitTaskRequest.class,
      responseType = dev.taskyard.v1.WaitTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.WaitTaskRequest,
      dev.taskyard.v1.WaitTaskResponse> getWaitTaskMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.WaitTaskRequest, dev.taskyard.v1.WaitTaskResponse> getWaitTaskMethod;
    if ((getWaitTaskMethod = TaskServiceGrpc.getWaitTaskMethod) == null) {
      synchronized (TaskServiceGrpc.class) {
        if ((getWaitTaskMethod = TaskServiceGrpc.getWaitTaskMethod) == null) {
          TaskServiceGrpc.getWaitTaskMethod = getWaitTaskMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.WaitTaskRequest, dev.taskyard.v1.WaitTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WaitTask"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.WaitTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.WaitTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskServiceMethodDescriptorSupplier("WaitTask"))
              .build();
        }
      }
    }
    return getWaitTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.WatchTasksRequest,
      dev.taskyard.v1.WatchTasksResponse> getWatchTasksMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WatchTasks",
      requestType = dev.taskyard.v1.WatchTasksRequest.class,
      responseType = dev.taskyard.v1.WatchTasksResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.WatchTasksRequest,
      dev.taskyard.v1.WatchTasksResponse> getWatchTasksMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.WatchTasksRequest, dev.taskyard.v1.WatchTasksResponse> getWatchTasksMethod;
    if ((getWatchTasksMethod = TaskServiceGrpc.getWatchTasksMethod) == null) {
      synchronized (TaskServiceGrpc.class) {
        if ((getWatchTasksMethod = TaskServiceGrpc.getWatchTasksMethod) == null) {
          TaskServiceGrpc.getWatchTasksMethod = getWatchTasksMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.WatchTasksRequest, dev.taskyard.v1.WatchTasksResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WatchTasks"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.WatchTasksRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.WatchTasksResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TaskServiceMethodDescriptorSupplier("WatchTasks"))
              .build();
        }
      }
    }
    return getWatchTasksMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static TaskServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TaskServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TaskServiceStub>() {
        @java.lang.Override
        public TaskServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TaskServiceStub(channel, callOptions);
        }
      };
    return TaskServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static TaskServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TaskServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TaskServiceBlockingV2Stub>() {
        @java.lang.Override
        public TaskServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TaskServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return TaskServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static TaskServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TaskServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TaskServiceBlockingStub>() {
        @java.lang.Override
        public TaskServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TaskServiceBlockingStub(channel, callOptions);
        }
      };
    return TaskServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static TaskServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TaskServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TaskServiceFutureStub>() {
        @java.lang.Override
        public TaskServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TaskServiceFutureStub(channel, callOptions);
        }
      };
    return TaskServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * TaskService takes tasks in, shows them, and ends, interrupts or resumes them.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Submits one task and answers once it is accepted.
     * A new task is `queued`, or `pending` where it is held or not yet due. A repeat with the same `idempotency_key` of
     * the same agent answers with the first task and submits nothing.
     * REST answers 202.
     * Errors: `bad_request` (no agent or action, a deadline in the past, a malformed field), `too_large` (params),
     * `queue_full` (the task is kept as `rejected`), `already_exists` (the idempotency key is taken by a different task).
     * Retry: safe with an `idempotency_key`; without one a repeat may submit the task twice.
     * </pre>
     */
    default void submitTask(dev.taskyard.v1.SubmitTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.SubmitTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSubmitTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * Submits many tasks over one stream.
     * Each message carries some tasks, each answer their outcomes: one answer per message, in the order of the messages,
     * and in it one outcome per task, in the order of the tasks. Admission is per task, so one refusal neither ends the
     * stream nor touches its neighbours. The caller half-closes when it has no more; the server answers what it has read.
     * Errors: those of SubmitTask stand in the outcomes; the stream itself ends only by `unavailable` and its like.
     * Retry: when the stream breaks, the fate of unanswered tasks is unknown; repeat them with their `idempotency_key`.
     * </pre>
     */
    default io.grpc.stub.StreamObserver<dev.taskyard.v1.SubmitTasksRequest> submitTasks(
        io.grpc.stub.StreamObserver<dev.taskyard.v1.SubmitTasksResponse> responseObserver) {
      return io.grpc.stub.ServerCalls.asyncUnimplementedStreamingCall(getSubmitTasksMethod(), responseObserver);
    }

    /**
     * <pre>
     * Answers one task as it stands.
     * The answer is the task itself, not a wrapper: the documented body of `GET /tasks/{task_id}` is flat
     * (scheduler-reference, Get One Task).
     * Errors: `not_found` (never submitted, or no longer retained).
     * Retry: safe.
     * buf:lint:ignore RPC_RESPONSE_STANDARD_NAME
     * </pre>
     */
    default void getTask(dev.taskyard.v1.GetTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.Task> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists the retained tasks that match all given filters, in order of submission.
     * Errors: `bad_request` (an unknown state name, a page token of another query).
     * Retry: safe.
     * </pre>
     */
    default void listTasks(dev.taskyard.v1.ListTasksRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ListTasksResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListTasksMethod(), responseObserver);
    }

    /**
     * <pre>
     * Cancels a task at once.
     * A waiting task leaves the queue. An assigned or running one loses its lease, and its host is told to stop. A paused
     * one just ends. A failed one can be cancelled only while it blocks a target.
     * Errors: `not_found`, `conflict` (the task has ended).
     * Retry: safe; a repeat of a call that worked answers `conflict`.
     * </pre>
     */
    default void cancelTask(dev.taskyard.v1.CancelTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.CancelTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCancelTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * Interrupts an assigned or running task so that it can be resumed.
     * The lease ends, the host is told to stop, the task is `paused` with the error `Job was interrupted by user`; over
     * its token budget it is `failed` with `token limit exceeded` instead. Its deadline counts no more. It blocks its
     * target.
     * Errors: `not_found`, `conflict` (neither assigned nor running).
     * Retry: safe; a repeat of a call that worked answers `conflict`.
     * </pre>
     */
    default void pauseTask(dev.taskyard.v1.PauseTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.PauseTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getPauseTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * Queues a paused or failed task again, or releases a held one.
     * A resumed task keeps its place (priority, first submission), gets a fresh deadline of its original length, counts a
     * new run, and may take all its attempts again; the tokens that it used stay counted. Admission limits do not apply.
     * A held task that is released counts no run; it stays `pending` while it is not yet due.
     * Errors: `not_found`, `conflict` (neither paused, failed nor held).
     * Retry: safe until the task runs; afterwards a repeat would resume a new failure.
     * </pre>
     */
    default void resumeTask(dev.taskyard.v1.ResumeTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ResumeTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getResumeTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * Ends a paused or failed task as `done` with the given result; it no longer blocks its target.
     * Errors: `not_found`, `conflict` (neither paused nor failed), `too_large` (result).
     * Retry: safe; a repeat of a call that worked answers `conflict`.
     * </pre>
     */
    default void resolveTask(dev.taskyard.v1.ResolveTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ResolveTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getResolveTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * Waits until a task has ended, or for the given time, and answers it as it then stands.
     * Errors: `not_found`. Running out of time is no error, see `WaitTaskResponse.ended`.
     * Retry: safe.
     * </pre>
     */
    default void waitTask(dev.taskyard.v1.WaitTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.WaitTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWaitTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * Streams what happens to the tasks that match all given filters.
     * A watch begins with a bookmark, before which come only the current tasks, if they are asked for; what happens after
     * it is told. From there on every message carries the cursor to resume from. A watcher that reads slowly loses nothing
     * until its place has left the log. A quiet stream gets a bookmark every 15 s. The last message says why the watch
     * ended; over REST it is the only sign, since HTTP has sent its 200 by then. REST answers one JSON object a line.
     * Errors: `bad_request` (an unknown state name, fields that exclude each other), `cursor_expired` (the cursor has
     * left the log, or is of another incarnation of it: list anew with `include_current`).
     * Retry: safe; with the last cursor nothing is missed and nothing repeated.
     * </pre>
     */
    default void watchTasks(dev.taskyard.v1.WatchTasksRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.WatchTasksResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWatchTasksMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service TaskService.
   * <pre>
   * TaskService takes tasks in, shows them, and ends, interrupts or resumes them.
   * </pre>
   */
  public static abstract class TaskServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return TaskServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service TaskService.
   * <pre>
   * TaskService takes tasks in, shows them, and ends, interrupts or resumes them.
   * </pre>
   */
  public static final class TaskServiceStub
      extends io.grpc.stub.AbstractAsyncStub<TaskServiceStub> {
    private TaskServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TaskServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TaskServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Submits one task and answers once it is accepted.
     * A new task is `queued`, or `pending` where it is held or not yet due. A repeat with the same `idempotency_key` of
     * the same agent answers with the first task and submits nothing.
     * REST answers 202.
     * Errors: `bad_request` (no agent or action, a deadline in the past, a malformed field), `too_large` (params),
     * `queue_full` (the task is kept as `rejected`), `already_exists` (the idempotency key is taken by a different task).
     * Retry: safe with an `idempotency_key`; without one a repeat may submit the task twice.
     * </pre>
     */
    public void submitTask(dev.taskyard.v1.SubmitTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.SubmitTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getSubmitTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Submits many tasks over one stream.
     * Each message carries some tasks, each answer their outcomes: one answer per message, in the order of the messages,
     * and in it one outcome per task, in the order of the tasks. Admission is per task, so one refusal neither ends the
     * stream nor touches its neighbours. The caller half-closes when it has no more; the server answers what it has read.
     * Errors: those of SubmitTask stand in the outcomes; the stream itself ends only by `unavailable` and its like.
     * Retry: when the stream breaks, the fate of unanswered tasks is unknown; repeat them with their `idempotency_key`.
     * </pre>
     */
    public io.grpc.stub.StreamObserver<dev.taskyard.v1.SubmitTasksRequest> submitTasks(
        io.grpc.stub.StreamObserver<dev.taskyard.v1.SubmitTasksResponse> responseObserver) {
      return io.grpc.stub.ClientCalls.asyncBidiStreamingCall(
          getChannel().newCall(getSubmitTasksMethod(), getCallOptions()), responseObserver);
    }

    /**
     * <pre>
     * Answers one task as it stands.
     * The answer is the task itself, not a wrapper: the documented body of `GET /tasks/{task_id}` is flat
     * (scheduler-reference, Get One Task).
     * Errors: `not_found` (never submitted, or no longer retained).
     * Retry: safe.
     * buf:lint:ignore RPC_RESPONSE_STANDARD_NAME
     * </pre>
     */
    public void getTask(dev.taskyard.v1.GetTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.Task> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists the retained tasks that match all given filters, in order of submission.
     * Errors: `bad_request` (an unknown state name, a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public void listTasks(dev.taskyard.v1.ListTasksRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ListTasksResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListTasksMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Cancels a task at once.
     * A waiting task leaves the queue. An assigned or running one loses its lease, and its host is told to stop. A paused
     * one just ends. A failed one can be cancelled only while it blocks a target.
     * Errors: `not_found`, `conflict` (the task has ended).
     * Retry: safe; a repeat of a call that worked answers `conflict`.
     * </pre>
     */
    public void cancelTask(dev.taskyard.v1.CancelTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.CancelTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCancelTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Interrupts an assigned or running task so that it can be resumed.
     * The lease ends, the host is told to stop, the task is `paused` with the error `Job was interrupted by user`; over
     * its token budget it is `failed` with `token limit exceeded` instead. Its deadline counts no more. It blocks its
     * target.
     * Errors: `not_found`, `conflict` (neither assigned nor running).
     * Retry: safe; a repeat of a call that worked answers `conflict`.
     * </pre>
     */
    public void pauseTask(dev.taskyard.v1.PauseTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.PauseTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getPauseTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Queues a paused or failed task again, or releases a held one.
     * A resumed task keeps its place (priority, first submission), gets a fresh deadline of its original length, counts a
     * new run, and may take all its attempts again; the tokens that it used stay counted. Admission limits do not apply.
     * A held task that is released counts no run; it stays `pending` while it is not yet due.
     * Errors: `not_found`, `conflict` (neither paused, failed nor held).
     * Retry: safe until the task runs; afterwards a repeat would resume a new failure.
     * </pre>
     */
    public void resumeTask(dev.taskyard.v1.ResumeTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ResumeTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getResumeTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Ends a paused or failed task as `done` with the given result; it no longer blocks its target.
     * Errors: `not_found`, `conflict` (neither paused nor failed), `too_large` (result).
     * Retry: safe; a repeat of a call that worked answers `conflict`.
     * </pre>
     */
    public void resolveTask(dev.taskyard.v1.ResolveTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ResolveTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getResolveTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Waits until a task has ended, or for the given time, and answers it as it then stands.
     * Errors: `not_found`. Running out of time is no error, see `WaitTaskResponse.ended`.
     * Retry: safe.
     * </pre>
     */
    public void waitTask(dev.taskyard.v1.WaitTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.WaitTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getWaitTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Streams what happens to the tasks that match all given filters.
     * A watch begins with a bookmark, before which come only the current tasks, if they are asked for; what happens after
     * it is told. From there on every message carries the cursor to resume from. A watcher that reads slowly loses nothing
     * until its place has left the log. A quiet stream gets a bookmark every 15 s. The last message says why the watch
     * ended; over REST it is the only sign, since HTTP has sent its 200 by then. REST answers one JSON object a line.
     * Errors: `bad_request` (an unknown state name, fields that exclude each other), `cursor_expired` (the cursor has
     * left the log, or is of another incarnation of it: list anew with `include_current`).
     * Retry: safe; with the last cursor nothing is missed and nothing repeated.
     * </pre>
     */
    public void watchTasks(dev.taskyard.v1.WatchTasksRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.WatchTasksResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getWatchTasksMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service TaskService.
   * <pre>
   * TaskService takes tasks in, shows them, and ends, interrupts or resumes them.
   * </pre>
   */
  public static final class TaskServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<TaskServiceBlockingV2Stub> {
    private TaskServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TaskServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TaskServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Submits one task and answers once it is accepted.
     * A new task is `queued`, or `pending` where it is held or not yet due. A repeat with the same `idempotency_key` of
     * the same agent answers with the first task and submits nothing.
     * REST answers 202.
     * Errors: `bad_request` (no agent or action, a deadline in the past, a malformed field), `too_large` (params),
     * `queue_full` (the task is kept as `rejected`), `already_exists` (the idempotency key is taken by a different task).
     * Retry: safe with an `idempotency_key`; without one a repeat may submit the task twice.
     * </pre>
     */
    public dev.taskyard.v1.SubmitTaskResponse submitTask(dev.taskyard.v1.SubmitTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getSubmitTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Submits many tasks over one stream.
     * Each message carries some tasks, each answer their outcomes: one answer per message, in the order of the messages,
     * and in it one outcome per task, in the order of the tasks. Admission is per task, so one refusal neither ends the
     * stream nor touches its neighbours. The caller half-closes when it has no more; the server answers what it has read.
     * Errors: those of SubmitTask stand in the outcomes; the stream itself ends only by `unavailable` and its like.
     * Retry: when the stream breaks, the fate of unanswered tasks is unknown; repeat them with their `idempotency_key`.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<dev.taskyard.v1.SubmitTasksRequest, dev.taskyard.v1.SubmitTasksResponse>
        submitTasks() {
      return io.grpc.stub.ClientCalls.blockingBidiStreamingCall(
          getChannel(), getSubmitTasksMethod(), getCallOptions());
    }

    /**
     * <pre>
     * Answers one task as it stands.
     * The answer is the task itself, not a wrapper: the documented body of `GET /tasks/{task_id}` is flat
     * (scheduler-reference, Get One Task).
     * Errors: `not_found` (never submitted, or no longer retained).
     * Retry: safe.
     * buf:lint:ignore RPC_RESPONSE_STANDARD_NAME
     * </pre>
     */
    public dev.taskyard.v1.Task getTask(dev.taskyard.v1.GetTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the retained tasks that match all given filters, in order of submission.
     * Errors: `bad_request` (an unknown state name, a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ListTasksResponse listTasks(dev.taskyard.v1.ListTasksRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListTasksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Cancels a task at once.
     * A waiting task leaves the queue. An assigned or running one loses its lease, and its host is told to stop. A paused
     * one just ends. A failed one can be cancelled only while it blocks a target.
     * Errors: `not_found`, `conflict` (the task has ended).
     * Retry: safe; a repeat of a call that worked answers `conflict`.
     * </pre>
     */
    public dev.taskyard.v1.CancelTaskResponse cancelTask(dev.taskyard.v1.CancelTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCancelTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Interrupts an assigned or running task so that it can be resumed.
     * The lease ends, the host is told to stop, the task is `paused` with the error `Job was interrupted by user`; over
     * its token budget it is `failed` with `token limit exceeded` instead. Its deadline counts no more. It blocks its
     * target.
     * Errors: `not_found`, `conflict` (neither assigned nor running).
     * Retry: safe; a repeat of a call that worked answers `conflict`.
     * </pre>
     */
    public dev.taskyard.v1.PauseTaskResponse pauseTask(dev.taskyard.v1.PauseTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getPauseTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Queues a paused or failed task again, or releases a held one.
     * A resumed task keeps its place (priority, first submission), gets a fresh deadline of its original length, counts a
     * new run, and may take all its attempts again; the tokens that it used stay counted. Admission limits do not apply.
     * A held task that is released counts no run; it stays `pending` while it is not yet due.
     * Errors: `not_found`, `conflict` (neither paused, failed nor held).
     * Retry: safe until the task runs; afterwards a repeat would resume a new failure.
     * </pre>
     */
    public dev.taskyard.v1.ResumeTaskResponse resumeTask(dev.taskyard.v1.ResumeTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getResumeTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Ends a paused or failed task as `done` with the given result; it no longer blocks its target.
     * Errors: `not_found`, `conflict` (neither paused nor failed), `too_large` (result).
     * Retry: safe; a repeat of a call that worked answers `conflict`.
     * </pre>
     */
    public dev.taskyard.v1.ResolveTaskResponse resolveTask(dev.taskyard.v1.ResolveTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getResolveTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Waits until a task has ended, or for the given time, and answers it as it then stands.
     * Errors: `not_found`. Running out of time is no error, see `WaitTaskResponse.ended`.
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.WaitTaskResponse waitTask(dev.taskyard.v1.WaitTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getWaitTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Streams what happens to the tasks that match all given filters.
     * A watch begins with a bookmark, before which come only the current tasks, if they are asked for; what happens after
     * it is told. From there on every message carries the cursor to resume from. A watcher that reads slowly loses nothing
     * until its place has left the log. A quiet stream gets a bookmark every 15 s. The last message says why the watch
     * ended; over REST it is the only sign, since HTTP has sent its 200 by then. REST answers one JSON object a line.
     * Errors: `bad_request` (an unknown state name, fields that exclude each other), `cursor_expired` (the cursor has
     * left the log, or is of another incarnation of it: list anew with `include_current`).
     * Retry: safe; with the last cursor nothing is missed and nothing repeated.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, dev.taskyard.v1.WatchTasksResponse>
        watchTasks(dev.taskyard.v1.WatchTasksRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getWatchTasksMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service TaskService.
   * <pre>
   * TaskService takes tasks in, shows them, and ends, interrupts or resumes them.
   * </pre>
   */
  public static final class TaskServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<TaskServiceBlockingStub> {
    private TaskServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TaskServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TaskServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Submits one task and answers once it is accepted.
     * A new task is `queued`, or `pending` where it is held or not yet due. A repeat with the same `idempotency_key` of
     * the same agent answers with the first task and submits nothing.
     * REST answers 202.
     * Errors: `bad_request` (no agent or action, a deadline in the past, a malformed field), `too_large` (params),
     * `queue_full` (the task is kept as `rejected`), `already_exists` (the idempotency key is taken by a different task).
     * Retry: safe with an `idempotency_key`; without one a repeat may submit the task twice.
     * </pre>
     */
    public dev.taskyard.v1.SubmitTaskResponse submitTask(dev.taskyard.v1.SubmitTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getSubmitTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Answers one task as it stands.
     * The answer is the task itself, not a wrapper: the documented body of `GET /tasks/{task_id}` is flat
     * (scheduler-reference, Get One Task).
     * Errors: `not_found` (never submitted, or no longer retained).
     * Retry: safe.
     * buf:lint:ignore RPC_RESPONSE_STANDARD_NAME
     * </pre>
     */
    public dev.taskyard.v1.Task getTask(dev.taskyard.v1.GetTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the retained tasks that match all given filters, in order of submission.
     * Errors: `bad_request` (an unknown state name, a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ListTasksResponse listTasks(dev.taskyard.v1.ListTasksRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListTasksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Cancels a task at once.
     * A waiting task leaves the queue. An assigned or running one loses its lease, and its host is told to stop. A paused
     * one just ends. A failed one can be cancelled only while it blocks a target.
     * Errors: `not_found`, `conflict` (the task has ended).
     * Retry: safe; a repeat of a call that worked answers `conflict`.
     * </pre>
     */
    public dev.taskyard.v1.CancelTaskResponse cancelTask(dev.taskyard.v1.CancelTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCancelTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Interrupts an assigned or running task so that it can be resumed.
     * The lease ends, the host is told to stop, the task is `paused` with the error `Job was interrupted by user`; over
     * its token budget it is `failed` with `token limit exceeded` instead. Its deadline counts no more. It blocks its
     * target.
     * Errors: `not_found`, `conflict` (neither assigned nor running).
     * Retry: safe; a repeat of a call that worked answers `conflict`.
     * </pre>
     */
    public dev.taskyard.v1.PauseTaskResponse pauseTask(dev.taskyard.v1.PauseTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getPauseTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Queues a paused or failed task again, or releases a held one.
     * A resumed task keeps its place (priority, first submission), gets a fresh deadline of its original length, counts a
     * new run, and may take all its attempts again; the tokens that it used stay counted. Admission limits do not apply.
     * A held task that is released counts no run; it stays `pending` while it is not yet due.
     * Errors: `not_found`, `conflict` (neither paused, failed nor held).
     * Retry: safe until the task runs; afterwards a repeat would resume a new failure.
     * </pre>
     */
    public dev.taskyard.v1.ResumeTaskResponse resumeTask(dev.taskyard.v1.ResumeTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getResumeTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Ends a paused or failed task as `done` with the given result; it no longer blocks its target.
     * Errors: `not_found`, `conflict` (neither paused nor failed), `too_large` (result).
     * Retry: safe; a repeat of a call that worked answers `conflict`.
     * </pre>
     */
    public dev.taskyard.v1.ResolveTaskResponse resolveTask(dev.taskyard.v1.ResolveTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getResolveTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Waits until a task has ended, or for the given time, and answers it as it then stands.
     * Errors: `not_found`. Running out of time is no error, see `WaitTaskResponse.ended`.
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.WaitTaskResponse waitTask(dev.taskyard.v1.WaitTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getWaitTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Streams what happens to the tasks that match all given filters.
     * A watch begins with a bookmark, before which come only the current tasks, if they are asked for; what happens after
     * it is told. From there on every message carries the cursor to resume from. A watcher that reads slowly loses nothing
     * until its place has left the log. A quiet stream gets a bookmark every 15 s. The last message says why the watch
     * ended; over REST it is the only sign, since HTTP has sent its 200 by then. REST answers one JSON object a line.
     * Errors: `bad_request` (an unknown state name, fields that exclude each other), `cursor_expired` (the cursor has
     * left the log, or is of another incarnation of it: list anew with `include_current`).
     * Retry: safe; with the last cursor nothing is missed and nothing repeated.
     * </pre>
     */
    public java.util.Iterator<dev.taskyard.v1.WatchTasksResponse> watchTasks(
        dev.taskyard.v1.WatchTasksRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getWatchTasksMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service TaskService.
   * <pre>
   * TaskService takes tasks in, shows them, and ends, interrupts or resumes them.
   * </pre>
   */
  public static final class TaskServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<TaskServiceFutureStub> {
    private TaskServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TaskServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TaskServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Submits one task and answers once it is accepted.
     * A new task is `queued`, or `pending` where it is held or not yet due. A repeat with the same `idempotency_key` of
     * the same agent answers with the first task and submits nothing.
     * REST answers 202.
     * Errors: `bad_request` (no agent or action, a deadline in the past, a malformed field), `too_large` (params),
     * `queue_full` (the task is kept as `rejected`), `already_exists` (the idempotency key is taken by a different task).
     * Retry: safe with an `idempotency_key`; without one a repeat may submit the task twice.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.SubmitTaskResponse> submitTask(
        dev.taskyard.v1.SubmitTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getSubmitTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Answers one task as it stands.
     * The answer is the task itself, not a wrapper: the documented body of `GET /tasks/{task_id}` is flat
     * (scheduler-reference, Get One Task).
     * Errors: `not_found` (never submitted, or no longer retained).
     * Retry: safe.
     * buf:lint:ignore RPC_RESPONSE_STANDARD_NAME
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.Task> getTask(
        dev.taskyard.v1.GetTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists the retained tasks that match all given filters, in order of submission.
     * Errors: `bad_request` (an unknown state name, a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.ListTasksResponse> listTasks(
        dev.taskyard.v1.ListTasksRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListTasksMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Cancels a task at once.
     * A waiting task leaves the queue. An assigned or running one loses its lease, and its host is told to stop. A paused
     * one just ends. A failed one can be cancelled only while it blocks a target.
     * Errors: `not_found`, `conflict` (the task has ended).
     * Retry: safe; a repeat of a call that worked answers `conflict`.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.CancelTaskResponse> cancelTask(
        dev.taskyard.v1.CancelTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCancelTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Interrupts an assigned or running task so that it can be resumed.
     * The lease ends, the host is told to stop, the task is `paused` with the error `Job was interrupted by user`; over
     * its token budget it is `failed` with `token limit exceeded` instead. Its deadline counts no more. It blocks its
     * target.
     * Errors: `not_found`, `conflict` (neither assigned nor running).
     * Retry: safe; a repeat of a call that worked answers `conflict`.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.PauseTaskResponse> pauseTask(
        dev.taskyard.v1.PauseTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getPauseTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Queues a paused or failed task again, or releases a held one.
     * A resumed task keeps its place (priority, first submission), gets a fresh deadline of its original length, counts a
     * new run, and may take all its attempts again; the tokens that it used stay counted. Admission limits do not apply.
     * A held task that is released counts no run; it stays `pending` while it is not yet due.
     * Errors: `not_found`, `conflict` (neither paused, failed nor held).
     * Retry: safe until the task runs; afterwards a repeat would resume a new failure.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.ResumeTaskResponse> resumeTask(
        dev.taskyard.v1.ResumeTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getResumeTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Ends a paused or failed task as `done` with the given result; it no longer blocks its target.
     * Errors: `not_found`, `conflict` (neither paused nor failed), `too_large` (result).
     * Retry: safe; a repeat of a call that worked answers `conflict`.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.ResolveTaskResponse> resolveTask(
        dev.taskyard.v1.ResolveTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getResolveTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Waits until a task has ended, or for the given time, and answers it as it then stands.
     * Errors: `not_found`. Running out of time is no error, see `WaitTaskResponse.ended`.
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.WaitTaskResponse> waitTask(
        dev.taskyard.v1.WaitTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getWaitTaskMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_SUBMIT_TASK = 0;
  private static final int METHODID_GET_TASK = 1;
  private static final int METHODID_LIST_TASKS = 2;
  private static final int METHODID_CANCEL_TASK = 3;
  private static final int METHODID_PAUSE_TASK = 4;
  private static final int METHODID_RESUME_TASK = 5;
  private static final int METHODID_RESOLVE_TASK = 6;
  private static final int METHODID_WAIT_TASK = 7;
  private static final int METHODID_WATCH_TASKS = 8;
  private static final int METHODID_SUBMIT_TASKS = 9;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final AsyncService serviceImpl;
    private final int methodId;

    MethodHandlers(AsyncService serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_SUBMIT_TASK:
          serviceImpl.submitTask((dev.taskyard.v1.SubmitTaskRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.SubmitTaskResponse>) responseObserver);
          break;
        case METHODID_GET_TASK:
          serviceImpl.getTask((dev.taskyard.v1.GetTaskRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.Task>) responseObserver);
          break;
        case METHODID_LIST_TASKS:
          serviceImpl.listTasks((dev.taskyard.v1.ListTasksRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.ListTasksResponse>) responseObserver);
          break;
        case METHODID_CANCEL_TASK:
          serviceImpl.cancelTask((dev.taskyard.v1.CancelTaskRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.CancelTaskResponse>) responseObserver);
          break;
        case METHODID_PAUSE_TASK:
          serviceImpl.pauseTask((dev.taskyard.v1.PauseTaskRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.PauseTaskResponse>) responseObserver);
          break;
        case METHODID_RESUME_TASK:
          serviceImpl.resumeTask((dev.taskyard.v1.ResumeTaskRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.ResumeTaskResponse>) responseObserver);
          break;
        case METHODID_RESOLVE_TASK:
          serviceImpl.resolveTask((dev.taskyard.v1.ResolveTaskRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.ResolveTaskResponse>) responseObserver);
          break;
        case METHODID_WAIT_TASK:
          serviceImpl.waitTask((dev.taskyard.v1.WaitTaskRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.WaitTaskResponse>) responseObserver);
          break;
        case METHODID_WATCH_TASKS:
          serviceImpl.watchTasks((dev.taskyard.v1.WatchTasksRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.WatchTasksResponse>) responseObserver);
          break;
        default:
          throw new AssertionError();
      }
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public io.grpc.stub.StreamObserver<Req> invoke(
        io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_SUBMIT_TASKS:
          return (io.grpc.stub.StreamObserver<Req>) serviceImpl.submitTasks(
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.SubmitTasksResponse>) responseObserver);
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getSubmitTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.SubmitTaskRequest,
              dev.taskyard.v1.SubmitTaskResponse>(
                service, METHODID_SUBMIT_TASK)))
        .addMethod(
          getSubmitTasksMethod(),
          io.grpc.stub.ServerCalls.asyncBidiStreamingCall(
            new MethodHandlers<
              dev.taskyard.v1.SubmitTasksRequest,
              dev.taskyard.v1.SubmitTasksResponse>(
                service, METHODID_SUBMIT_TASKS)))
        .addMethod(
          getGetTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.GetTaskRequest,
              dev.taskyard.v1.Task>(
                service, METHODID_GET_TASK)))
        .addMethod(
          getListTasksMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.ListTasksRequest,
              dev.taskyard.v1.ListTasksResponse>(
                service, METHODID_LIST_TASKS)))
        .addMethod(
          getCancelTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.CancelTaskRequest,
              dev.taskyard.v1.CancelTaskResponse>(
                service, METHODID_CANCEL_TASK)))
        .addMethod(
          getPauseTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.PauseTaskRequest,
              dev.taskyard.v1.PauseTaskResponse>(
                service, METHODID_PAUSE_TASK)))
        .addMethod(
          getResumeTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.ResumeTaskRequest,
              dev.taskyard.v1.ResumeTaskResponse>(
                service, METHODID_RESUME_TASK)))
        .addMethod(
          getResolveTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.ResolveTaskRequest,
              dev.taskyard.v1.ResolveTaskResponse>(
                service, METHODID_RESOLVE_TASK)))
        .addMethod(
          getWaitTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.WaitTaskRequest,
              dev.taskyard.v1.WaitTaskResponse>(
                service, METHODID_WAIT_TASK)))
        .addMethod(
          getWatchTasksMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              dev.taskyard.v1.WatchTasksRequest,
              dev.taskyard.v1.WatchTasksResponse>(
                service, METHODID_WATCH_TASKS)))
        .build();
  }

  private static abstract class TaskServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    TaskServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.taskyard.v1.TaskProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("TaskService");
    }
  }

  private static final class TaskServiceFileDescriptorSupplier
      extends TaskServiceBaseDescriptorSupplier {
    TaskServiceFileDescriptorSupplier() {}
  }

  private static final class TaskServiceMethodDescriptorSupplier
      extends TaskServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    TaskServiceMethodDescriptorSupplier(java.lang.String methodName) {
      this.methodName = methodName;
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.MethodDescriptor getMethodDescriptor() {
      return getServiceDescriptor().findMethodByName(methodName);
    }
  }

  private static volatile io.grpc.ServiceDescriptor serviceDescriptor;

  public static io.grpc.ServiceDescriptor getServiceDescriptor() {
    io.grpc.ServiceDescriptor result = serviceDescriptor;
    if (result == null) {
      synchronized (TaskServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new TaskServiceFileDescriptorSupplier())
              .addMethod(getSubmitTaskMethod())
              .addMethod(getSubmitTasksMethod())
              .addMethod(getGetTaskMethod())
              .addMethod(getListTasksMethod())
              .addMethod(getCancelTaskMethod())
              .addMethod(getPauseTaskMethod())
              .addMethod(getResumeTaskMethod())
              .addMethod(getResolveTaskMethod())
              .addMethod(getWaitTaskMethod())
              .addMethod(getWatchTasksMethod())
              .build();
        }
      }
    }
    return result;
  }
}
