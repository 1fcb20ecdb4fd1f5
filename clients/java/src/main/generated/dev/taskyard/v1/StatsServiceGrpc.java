package dev.taskyard.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * StatsService shows the figures of the caller's namespace.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class StatsServiceGrpc {

  private StatsServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "taskyard.v1.StatsService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.GetStatsRequest,
      dev.taskyard.v1.GetStatsResponse> getGetStatsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetStats",
      requestType = dev.taskyard.v1.GetStatsRequest.class,
      responseType = dev.taskyard.v1.GetStatsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.GetStatsRequest,
      dev.taskyard.v1.GetStatsResponse> getGetStatsMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.GetStatsRequest, dev.taskyard.v1.GetStatsResponse> getGetStatsMethod;
    if ((getGetStatsMethod = StatsServiceGrpc.getGetStatsMethod) == null) {
      synchronized (StatsServiceGrpc.class) {
        if ((getGetStatsMethod = StatsServiceGrpc.getGetStatsMethod) == null) {
          StatsServiceGrpc.getGetStatsMethod = getGetStatsMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.GetStatsRequest, dev.taskyard.v1.GetStatsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetStats"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.GetStatsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.GetStatsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new StatsServiceMethodDescriptorSupplier("GetStats"))
              .build();
        }
      }
    }
    return getGetStatsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.ListSnapshotsRequest,
      dev.taskyard.v1.ListSnapshotsResponse> getListSnapshotsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListSnapshots",
      requestType = dev.taskyard.v1.ListSnapshotsRequest.class,
      responseType = dev.taskyard.v1.ListSnapshotsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.ListSnapshotsRequest,
      dev.taskyard.v1.ListSnapshotsResponse> getListSnapshotsMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.ListSnapshotsRequest, dev.taskyard.v1.ListSnapshotsResponse> getListSnapshotsMethod;
    if ((getListSnapshotsMethod = StatsServiceGrpc.getListSnapshotsMethod) == null) {
      synchronized (StatsServiceGrpc.class) {
        if ((getListSnapshotsMethod = StatsServiceGrpc.getListSnapshotsMethod) == null) {
          StatsServiceGrpc.getListSnapshotsMethod = getListSnapshotsMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.ListSnapshotsRequest, dev.taskyard.v1.ListSnapshotsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListSnapshots"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ListSnapshotsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ListSnapshotsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new StatsServiceMethodDescriptorSupplier("ListSnapshots"))
              .build();
        }
      }
    }
    return getListSnapshotsMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static StatsServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<StatsServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<StatsServiceStub>() {
        @java.lang.Override
        public StatsServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new StatsServiceStub(channel, callOptions);
        }
      };
    return StatsServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static StatsServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<StatsServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<StatsServiceBlockingV2Stub>() {
        @java.lang.Override
        public StatsServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new StatsServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return StatsServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static StatsServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<StatsServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<StatsServiceBlockingStub>() {
        @java.lang.Override
        public StatsServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new StatsServiceBlockingStub(channel, callOptions);
        }
      };
    return StatsServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static StatsServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<StatsServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<StatsServiceFutureStub>() {
        @java.lang.Override
        public StatsServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new StatsServiceFutureStub(channel, callOptions);
        }
      };
    return StatsServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * StatsService shows the figures of the caller's namespace.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Answers queue state, counters and configuration as of one moment (scheduler-reference, Scheduler Stats).
     * Errors: only the common ones.
     * Retry: safe.
     * </pre>
     */
    default void getStats(dev.taskyard.v1.GetStatsRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.GetStatsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetStatsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists machine snapshots, newest first (scheduler-daemon, Machine Snapshots): those of each online host that reports
     * figures, and the server's own, which also tell how its namespace stood. They are taken at the start and then every
     * `daemon.heartbeatIntervalMs`, and kept for an hour.
     * Errors: `bad_request` (a page token of another query).
     * Retry: safe.
     * </pre>
     */
    default void listSnapshots(dev.taskyard.v1.ListSnapshotsRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ListSnapshotsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListSnapshotsMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service StatsService.
   * <pre>
   * StatsService shows the figures of the caller's namespace.
   * </pre>
   */
  public static abstract class StatsServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return StatsServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service StatsService.
   * <pre>
   * StatsService shows the figures of the caller's namespace.
   * </pre>
   */
  public static final class StatsServiceStub
      extends io.grpc.stub.AbstractAsyncStub<StatsServiceStub> {
    private StatsServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected StatsServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new StatsServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Answers queue state, counters and configuration as of one moment (scheduler-reference, Scheduler Stats).
     * Errors: only the common ones.
     * Retry: safe.
     * </pre>
     */
    public void getStats(dev.taskyard.v1.GetStatsRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.GetStatsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetStatsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists machine snapshots, newest first (scheduler-daemon, Machine Snapshots): those of each online host that reports
     * figures, and the server's own, which also tell how its namespace stood. They are taken at the start and then every
     * `daemon.heartbeatIntervalMs`, and kept for an hour.
     * Errors: `bad_request` (a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public void listSnapshots(dev.taskyard.v1.ListSnapshotsRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ListSnapshotsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListSnapshotsMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service StatsService.
   * <pre>
   * StatsService shows the figures of the caller's namespace.
   * </pre>
   */
  public static final class StatsServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<StatsServiceBlockingV2Stub> {
    private StatsServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected StatsServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new StatsServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Answers queue state, counters and configuration as of one moment (scheduler-reference, Scheduler Stats).
     * Errors: only the common ones.
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.GetStatsResponse getStats(dev.taskyard.v1.GetStatsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetStatsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists machine snapshots, newest first (scheduler-daemon, Machine Snapshots): those of each online host that reports
     * figures, and the server's own, which also tell how its namespace stood. They are taken at the start and then every
     * `daemon.heartbeatIntervalMs`, and kept for an hour.
     * Errors: `bad_request` (a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ListSnapshotsResponse listSnapshots(dev.taskyard.v1.ListSnapshotsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListSnapshotsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service StatsService.
   * <pre>
   * StatsService shows the figures of the caller's namespace.
   * </pre>
   */
  public static final class StatsServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<StatsServiceBlockingStub> {
    private StatsServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected StatsServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new StatsServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Answers queue state, counters and configuration as of one moment (scheduler-reference, Scheduler Stats).
     * Errors: only the common ones.
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.GetStatsResponse getStats(dev.taskyard.v1.GetStatsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetStatsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists machine snapshots, newest first (scheduler-daemon, Machine Snapshots): those of each online host that reports
     * figures, and the server's own, which also tell how its namespace stood. They are taken at the start and then every
     * `daemon.heartbeatIntervalMs`, and kept for an hour.
     * Errors: `bad_request` (a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ListSnapshotsResponse listSnapshots(dev.taskyard.v1.ListSnapshotsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListSnapshotsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service StatsService.
   * <pre>
   * StatsService shows the figures of the caller's namespace.
   * </pre>
   */
  public static final class StatsServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<StatsServiceFutureStub> {
    private StatsServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected StatsServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new StatsServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Answers queue state, counters and configuration as of one moment (scheduler-reference, Scheduler Stats).
     * Errors: only the common ones.
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.GetStatsResponse> getStats(
        dev.taskyard.v1.GetStatsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetStatsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists machine snapshots, newest first (scheduler-daemon, Machine Snapshots): those of each online host that reports
     * figures, and the server's own, which also tell how its namespace stood. They are taken at the start and then every
     * `daemon.heartbeatIntervalMs`, and kept for an hour.
     * Errors: `bad_request` (a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.ListSnapshotsResponse> listSnapshots(
        dev.taskyard.v1.ListSnapshotsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListSnapshotsMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_GET_STATS = 0;
  private static final int METHODID_LIST_SNAPSHOTS = 1;

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
        case METHODID_GET_STATS:
          serviceImpl.getStats((dev.taskyard.v1.GetStatsRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.GetStatsResponse>) responseObserver);
          break;
        case METHODID_LIST_SNAPSHOTS:
          serviceImpl.listSnapshots((dev.taskyard.v1.ListSnapshotsRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.ListSnapshotsResponse>) responseObserver);
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
          getGetStatsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.GetStatsRequest,
              dev.taskyard.v1.GetStatsResponse>(
                service, METHODID_GET_STATS)))
        .addMethod(
          getListSnapshotsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.ListSnapshotsRequest,
              dev.taskyard.v1.ListSnapshotsResponse>(
                service, METHODID_LIST_SNAPSHOTS)))
        .build();
  }

  private static abstract class StatsServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    StatsServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.taskyard.v1.StatsProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("StatsService");
    }
  }

  private static final class StatsServiceFileDescriptorSupplier
      extends StatsServiceBaseDescriptorSupplier {
    StatsServiceFileDescriptorSupplier() {}
  }

  private static final class StatsServiceMethodDescriptorSupplier
      extends StatsServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    StatsServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (StatsServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new StatsServiceFileDescriptorSupplier())
              .addMethod(getGetStatsMethod())
              .addMethod(getListSnapshotsMethod())
              .build();
        }
      }
    }
    return result;
  }
}
