package dev.taskyard.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * TargetService shows the targets and lets one go on (queueing-and-execution).
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class TargetServiceGrpc {

  private TargetServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "taskyard.v1.TargetService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.ListTargetsRequest,
      dev.taskyard.v1.ListTargetsResponse> getListTargetsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListTargets",
      requestType = dev.taskyard.v1.ListTargetsRequest.class,
      responseType = dev.taskyard.v1.ListTargetsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.ListTargetsRequest,
      dev.taskyard.v1.ListTargetsResponse> getListTargetsMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.ListTargetsRequest, dev.taskyard.v1.ListTargetsResponse> getListTargetsMethod;
    if ((getListTargetsMethod = TargetServiceGrpc.getListTargetsMethod) == null) {
      synchronized (TargetServiceGrpc.class) {
        if ((getListTargetsMethod = TargetServiceGrpc.getListTargetsMethod) == null) {
          TargetServiceGrpc.getListTargetsMethod = getListTargetsMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.ListTargetsRequest, dev.taskyard.v1.ListTargetsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListTargets"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ListTargetsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ListTargetsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TargetServiceMethodDescriptorSupplier("ListTargets"))
              .build();
        }
      }
    }
    return getListTargetsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.ResumeTargetTaskRequest,
      dev.taskyard.v1.ResumeTargetTaskResponse> getResumeTargetTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ResumeTargetTask",
      requestType = dev.taskyard.v1.ResumeTargetTaskRequest.class,
      responseType = dev.taskyard.v1.ResumeTargetTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.ResumeTargetTaskRequest,
      dev.taskyard.v1.ResumeTargetTaskResponse> getResumeTargetTaskMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.ResumeTargetTaskRequest, dev.taskyard.v1.ResumeTargetTaskResponse> getResumeTargetTaskMethod;
    if ((getResumeTargetTaskMethod = TargetServiceGrpc.getResumeTargetTaskMethod) == null) {
      synchronized (TargetServiceGrpc.class) {
        if ((getResumeTargetTaskMethod = TargetServiceGrpc.getResumeTargetTaskMethod) == null) {
          TargetServiceGrpc.getResumeTargetTaskMethod = getResumeTargetTaskMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.ResumeTargetTaskRequest, dev.taskyard.v1.ResumeTargetTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ResumeTargetTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ResumeTargetTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ResumeTargetTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TargetServiceMethodDescriptorSupplier("ResumeTargetTask"))
              .build();
        }
      }
    }
    return getResumeTargetTaskMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static TargetServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TargetServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TargetServiceStub>() {
        @java.lang.Override
        public TargetServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TargetServiceStub(channel, callOptions);
        }
      };
    return TargetServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static TargetServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TargetServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TargetServiceBlockingV2Stub>() {
        @java.lang.Override
        public TargetServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TargetServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return TargetServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static TargetServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TargetServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TargetServiceBlockingStub>() {
        @java.lang.Override
        public TargetServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TargetServiceBlockingStub(channel, callOptions);
        }
      };
    return TargetServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static TargetServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TargetServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TargetServiceFutureStub>() {
        @java.lang.Override
        public TargetServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TargetServiceFutureStub(channel, callOptions);
        }
      };
    return TargetServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * TargetService shows the targets and lets one go on (queueing-and-execution).
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Lists the targets, by name: those with tasks that wait, run or block, or whose last task still stops at its host.
     * Errors: `bad_request` (an unknown status, a page token of another query).
     * Retry: safe.
     * </pre>
     */
    default void listTargets(dev.taskyard.v1.ListTargetsRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ListTargetsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListTargetsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Queues a paused or failed task of a target again, or releases a held one, as ResumeTask does
     * (queueing-and-execution, Resume flow). REST takes the path with a slash at its end too.
     * Errors: `not_found` (no such task, or not of this target), `conflict` (neither paused, failed nor held).
     * Retry: safe until the task runs; afterwards a repeat would resume a new failure.
     * </pre>
     */
    default void resumeTargetTask(dev.taskyard.v1.ResumeTargetTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ResumeTargetTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getResumeTargetTaskMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service TargetService.
   * <pre>
   * TargetService shows the targets and lets one go on (queueing-and-execution).
   * </pre>
   */
  public static abstract class TargetServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return TargetServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service TargetService.
   * <pre>
   * TargetService shows the targets and lets one go on (queueing-and-execution).
   * </pre>
   */
  public static final class TargetServiceStub
      extends io.grpc.stub.AbstractAsyncStub<TargetServiceStub> {
    private TargetServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TargetServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TargetServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists the targets, by name: those with tasks that wait, run or block, or whose last task still stops at its host.
     * Errors: `bad_request` (an unknown status, a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public void listTargets(dev.taskyard.v1.ListTargetsRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ListTargetsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListTargetsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Queues a paused or failed task of a target again, or releases a held one, as ResumeTask does
     * (queueing-and-execution, Resume flow). REST takes the path with a slash at its end too.
     * Errors: `not_found` (no such task, or not of this target), `conflict` (neither paused, failed nor held).
     * Retry: safe until the task runs; afterwards a repeat would resume a new failure.
     * </pre>
     */
    public void resumeTargetTask(dev.taskyard.v1.ResumeTargetTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ResumeTargetTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getResumeTargetTaskMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service TargetService.
   * <pre>
   * TargetService shows the targets and lets one go on (queueing-and-execution).
   * </pre>
   */
  public static final class TargetServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<TargetServiceBlockingV2Stub> {
    private TargetServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TargetServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TargetServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists the targets, by name: those with tasks that wait, run or block, or whose last task still stops at its host.
     * Errors: `bad_request` (an unknown status, a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ListTargetsResponse listTargets(dev.taskyard.v1.ListTargetsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListTargetsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Queues a paused or failed task of a target again, or releases a held one, as ResumeTask does
     * (queueing-and-execution, Resume flow). REST takes the path with a slash at its end too.
     * Errors: `not_found` (no such task, or not of this target), `conflict` (neither paused, failed nor held).
     * Retry: safe until the task runs; afterwards a repeat would resume a new failure.
     * </pre>
     */
    public dev.taskyard.v1.ResumeTargetTaskResponse resumeTargetTask(dev.taskyard.v1.ResumeTargetTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getResumeTargetTaskMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service TargetService.
   * <pre>
   * TargetService shows the targets and lets one go on (queueing-and-execution).
   * </pre>
   */
  public static final class TargetServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<TargetServiceBlockingStub> {
    private TargetServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TargetServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TargetServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists the targets, by name: those with tasks that wait, run or block, or whose last task still stops at its host.
     * Errors: `bad_request` (an unknown status, a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ListTargetsResponse listTargets(dev.taskyard.v1.ListTargetsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListTargetsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Queues a paused or failed task of a target again, or releases a held one, as ResumeTask does
     * (queueing-and-execution, Resume flow). REST takes the path with a slash at its end too.
     * Errors: `not_found` (no such task, or not of this target), `conflict` (neither paused, failed nor held).
     * Retry: safe until the task runs; afterwards a repeat would resume a new failure.
     * </pre>
     */
    public dev.taskyard.v1.ResumeTargetTaskResponse resumeTargetTask(dev.taskyard.v1.ResumeTargetTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getResumeTargetTaskMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service TargetService.
   * <pre>
   * TargetService shows the targets and lets one go on (queueing-and-execution).
   * </pre>
   */
  public static final class TargetServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<TargetServiceFutureStub> {
    private TargetServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TargetServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TargetServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists the targets, by name: those with tasks that wait, run or block, or whose last task still stops at its host.
     * Errors: `bad_request` (an unknown status, a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.ListTargetsResponse> listTargets(
        dev.taskyard.v1.ListTargetsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListTargetsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Queues a paused or failed task of a target again, or releases a held one, as ResumeTask does
     * (queueing-and-execution, Resume flow). REST takes the path with a slash at its end too.
     * Errors: `not_found` (no such task, or not of this target), `conflict` (neither paused, failed nor held).
     * Retry: safe until the task runs; afterwards a repeat would resume a new failure.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.ResumeTargetTaskResponse> resumeTargetTask(
        dev.taskyard.v1.ResumeTargetTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getResumeTargetTaskMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_LIST_TARGETS = 0;
  private static final int METHODID_RESUME_TARGET_TASK = 1;

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
        case METHODID_LIST_TARGETS:
          serviceImpl.listTargets((dev.taskyard.v1.ListTargetsRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.ListTargetsResponse>) responseObserver);
          break;
        case METHODID_RESUME_TARGET_TASK:
          serviceImpl.resumeTargetTask((dev.taskyard.v1.ResumeTargetTaskRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.ResumeTargetTaskResponse>) responseObserver);
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
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getListTargetsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.ListTargetsRequest,
              dev.taskyard.v1.ListTargetsResponse>(
                service, METHODID_LIST_TARGETS)))
        .addMethod(
          getResumeTargetTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.ResumeTargetTaskRequest,
              dev.taskyard.v1.ResumeTargetTaskResponse>(
                service, METHODID_RESUME_TARGET_TASK)))
        .build();
  }

  private static abstract class TargetServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    TargetServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.taskyard.v1.TargetProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("TargetService");
    }
  }

  private static final class TargetServiceFileDescriptorSupplier
      extends TargetServiceBaseDescriptorSupplier {
    TargetServiceFileDescriptorSupplier() {}
  }

  private static final class TargetServiceMethodDescriptorSupplier
      extends TargetServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    TargetServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (TargetServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new TargetServiceFileDescriptorSupplier())
              .addMethod(getListTargetsMethod())
              .addMethod(getResumeTargetTaskMethod())
              .build();
        }
      }
    }
    return result;
  }
}
