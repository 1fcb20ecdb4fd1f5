package dev.taskyard.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * AdminService is for operators; it acts on the server as a whole, whatever the namespace of the call.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class AdminServiceGrpc {

  private AdminServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "taskyard.v1.AdminService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.GetConfigRequest,
      dev.taskyard.v1.GetConfigResponse> getGetConfigMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetConfig",
      requestType = dev.taskyard.v1.GetConfigRequest.class,
      responseType = dev.taskyard.v1.GetConfigResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.GetConfigRequest,
      dev.taskyard.v1.GetConfigResponse> getGetConfigMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.GetConfigRequest, dev.taskyard.v1.GetConfigResponse> getGetConfigMethod;
    if ((getGetConfigMethod = AdminServiceGrpc.getGetConfigMethod) == null) {
      synchronized (AdminServiceGrpc.class) {
        if ((getGetConfigMethod = AdminServiceGrpc.getGetConfigMethod) == null) {
          AdminServiceGrpc.getGetConfigMethod = getGetConfigMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.GetConfigRequest, dev.taskyard.v1.GetConfigResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetConfig"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.GetConfigRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.GetConfigResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminServiceMethodDescriptorSupplier("GetConfig"))
              .build();
        }
      }
    }
    return getGetConfigMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.ReloadConfigRequest,
      dev.taskyard.v1.ReloadConfigResponse> getReloadConfigMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ReloadConfig",
      requestType = dev.taskyard.v1.ReloadConfigRequest.class,
      responseType = dev.taskyard.v1.ReloadConfigResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.ReloadConfigRequest,
      dev.taskyard.v1.ReloadConfigResponse> getReloadConfigMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.ReloadConfigRequest, dev.taskyard.v1.ReloadConfigResponse> getReloadConfigMethod;
    if ((getReloadConfigMethod = AdminServiceGrpc.getReloadConfigMethod) == null) {
      synchronized (AdminServiceGrpc.class) {
        if ((getReloadConfigMethod = AdminServiceGrpc.getReloadConfigMethod) == null) {
          AdminServiceGrpc.getReloadConfigMethod = getReloadConfigMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.ReloadConfigRequest, dev.taskyard.v1.ReloadConfigResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ReloadConfig"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ReloadConfigRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ReloadConfigResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminServiceMethodDescriptorSupplier("ReloadConfig"))
              .build();
        }
      }
    }
    return getReloadConfigMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.DrainServerRequest,
      dev.taskyard.v1.DrainServerResponse> getDrainServerMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DrainServer",
      requestType = dev.taskyard.v1.DrainServerRequest.class,
      responseType = dev.taskyard.v1.DrainServerResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.DrainServerRequest,
      dev.taskyard.v1.DrainServerResponse> getDrainServerMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.DrainServerRequest, dev.taskyard.v1.DrainServerResponse> getDrainServerMethod;
    if ((getDrainServerMethod = AdminServiceGrpc.getDrainServerMethod) == null) {
      synchronized (AdminServiceGrpc.class) {
        if ((getDrainServerMethod = AdminServiceGrpc.getDrainServerMethod) == null) {
          AdminServiceGrpc.getDrainServerMethod = getDrainServerMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.DrainServerRequest, dev.taskyard.v1.DrainServerResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DrainServer"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.DrainServerRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.DrainServerResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AdminServiceMethodDescriptorSupplier("DrainServer"))
              .build();
        }
      }
    }
    return getDrainServerMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static AdminServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AdminServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AdminServiceStub>() {
        @java.lang.Override
        public AdminServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AdminServiceStub(channel, callOptions);
        }
      };
    return AdminServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static AdminServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AdminServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AdminServiceBlockingV2Stub>() {
        @java.lang.Override
        public AdminServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AdminServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return AdminServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static AdminServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AdminServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AdminServiceBlockingStub>() {
        @java.lang.Override
        public AdminServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AdminServiceBlockingStub(channel, callOptions);
        }
      };
    return AdminServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static AdminServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AdminServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AdminServiceFutureStub>() {
        @java.lang.Override
        public AdminServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AdminServiceFutureStub(channel, callOptions);
        }
      };
    return AdminServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * AdminService is for operators; it acts on the server as a whole, whatever the namespace of the call.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Answers the settings in force and where each comes from. Secrets are masked.
     * Errors: only the common ones.
     * Retry: safe.
     * </pre>
     */
    default void getConfig(dev.taskyard.v1.GetConfigRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.GetConfigResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetConfigMethod(), responseObserver);
    }

    /**
     * <pre>
     * Reads the configuration file again and applies what can change while the server runs; zero values keep what is set
     * (scheduler-reference, Config Hot-Reload).
     * Errors: `conflict` (no file, or a broken one; the settings stay as they are).
     * Retry: safe.
     * </pre>
     */
    default void reloadConfig(dev.taskyard.v1.ReloadConfigRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ReloadConfigResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getReloadConfigMethod(), responseObserver);
    }

    /**
     * <pre>
     * Begins to drain the server, as SIGTERM does: nothing is claimed any more, running tasks have the grace period to
     * end and are paused after it, then the server stops (queueing-and-execution, Graceful shutdown).
     * Answers at once. A drain cannot be taken back.
     * Errors: only the common ones.
     * Retry: safe; a repeat changes the grace period.
     * </pre>
     */
    default void drainServer(dev.taskyard.v1.DrainServerRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.DrainServerResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDrainServerMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service AdminService.
   * <pre>
   * AdminService is for operators; it acts on the server as a whole, whatever the namespace of the call.
   * </pre>
   */
  public static abstract class AdminServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return AdminServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service AdminService.
   * <pre>
   * AdminService is for operators; it acts on the server as a whole, whatever the namespace of the call.
   * </pre>
   */
  public static final class AdminServiceStub
      extends io.grpc.stub.AbstractAsyncStub<AdminServiceStub> {
    private AdminServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AdminServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AdminServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Answers the settings in force and where each comes from. Secrets are masked.
     * Errors: only the common ones.
     * Retry: safe.
     * </pre>
     */
    public void getConfig(dev.taskyard.v1.GetConfigRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.GetConfigResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetConfigMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Reads the configuration file again and applies what can change while the server runs; zero values keep what is set
     * (scheduler-reference, Config Hot-Reload).
     * Errors: `conflict` (no file, or a broken one; the settings stay as they are).
     * Retry: safe.
     * </pre>
     */
    public void reloadConfig(dev.taskyard.v1.ReloadConfigRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ReloadConfigResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getReloadConfigMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Begins to drain the server, as SIGTERM does: nothing is claimed any more, running tasks have the grace period to
     * end and are paused after it, then the server stops (queueing-and-execution, Graceful shutdown).
     * Answers at once. A drain cannot be taken back.
     * Errors: only the common ones.
     * Retry: safe; a repeat changes the grace period.
     * </pre>
     */
    public void drainServer(dev.taskyard.v1.DrainServerRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.DrainServerResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDrainServerMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service AdminService.
   * <pre>
   * AdminService is for operators; it acts on the server as a whole, whatever the namespace of the call.
   * </pre>
   */
  public static final class AdminServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<AdminServiceBlockingV2Stub> {
    private AdminServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AdminServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AdminServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Answers the settings in force and where each comes from. Secrets are masked.
     * Errors: only the common ones.
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.GetConfigResponse getConfig(dev.taskyard.v1.GetConfigRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetConfigMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reads the configuration file again and applies what can change while the server runs; zero values keep what is set
     * (scheduler-reference, Config Hot-Reload).
     * Errors: `conflict` (no file, or a broken one; the settings stay as they are).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ReloadConfigResponse reloadConfig(dev.taskyard.v1.ReloadConfigRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getReloadConfigMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Begins to drain the server, as SIGTERM does: nothing is claimed any more, running tasks have the grace period to
     * end and are paused after it, then the server stops (queueing-and-execution, Graceful shutdown).
     * Answers at once. A drain cannot be taken back.
     * Errors: only the common ones.
     * Retry: safe; a repeat changes the grace period.
     * </pre>
     */
    public dev.taskyard.v1.DrainServerResponse drainServer(dev.taskyard.v1.DrainServerRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDrainServerMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service AdminService.
   * <pre>
   * AdminService is for operators; it acts on the server as a whole, whatever the namespace of the call.
   * </pre>
   */
  public static final class AdminServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<AdminServiceBlockingStub> {
    private AdminServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AdminServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AdminServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Answers the settings in force and where each comes from. Secrets are masked.
     * Errors: only the common ones.
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.GetConfigResponse getConfig(dev.taskyard.v1.GetConfigRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetConfigMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reads the configuration file again and applies what can change while the server runs; zero values keep what is set
     * (scheduler-reference, Config Hot-Reload).
     * Errors: `conflict` (no file, or a broken one; the settings stay as they are).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ReloadConfigResponse reloadConfig(dev.taskyard.v1.ReloadConfigRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getReloadConfigMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Begins to drain the server, as SIGTERM does: nothing is claimed any more, running tasks have the grace period to
     * end and are paused after it, then the server stops (queueing-and-execution, Graceful shutdown).
     * Answers at once. A drain cannot be taken back.
     * Errors: only the common ones.
     * Retry: safe; a repeat changes the grace period.
     * </pre>
     */
    public dev.taskyard.v1.DrainServerResponse drainServer(dev.taskyard.v1.DrainServerRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDrainServerMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service AdminService.
   * <pre>
   * AdminService is for operators; it acts on the server as a whole, whatever the namespace of the call.
   * </pre>
   */
  public static final class AdminServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<AdminServiceFutureStub> {
    private AdminServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AdminServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AdminServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Answers the settings in force and where each comes from. Secrets are masked.
     * Errors: only the common ones.
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.GetConfigResponse> getConfig(
        dev.taskyard.v1.GetConfigRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetConfigMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Reads the configuration file again and applies what can change while the server runs; zero values keep what is set
     * (scheduler-reference, Config Hot-Reload).
     * Errors: `conflict` (no file, or a broken one; the settings stay as they are).
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.ReloadConfigResponse> reloadConfig(
        dev.taskyard.v1.ReloadConfigRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getReloadConfigMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Begins to drain the server, as SIGTERM does: nothing is claimed any more, running tasks have the grace period to
     * end and are paused after it, then the server stops (queueing-and-execution, Graceful shutdown).
     * Answers at once. A drain cannot be taken back.
     * Errors: only the common ones.
     * Retry: safe; a repeat changes the grace period.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.DrainServerResponse> drainServer(
        dev.taskyard.v1.DrainServerRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDrainServerMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_GET_CONFIG = 0;
  private static final int METHODID_RELOAD_CONFIG = 1;
  private static final int METHODID_DRAIN_SERVER = 2;

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
        case METHODID_GET_CONFIG:
          serviceImpl.getConfig((dev.taskyard.v1.GetConfigRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.GetConfigResponse>) responseObserver);
          break;
        case METHODID_RELOAD_CONFIG:
          serviceImpl.reloadConfig((dev.taskyard.v1.ReloadConfigRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.ReloadConfigResponse>) responseObserver);
          break;
        case METHODID_DRAIN_SERVER:
          serviceImpl.drainServer((dev.taskyard.v1.DrainServerRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.DrainServerResponse>) responseObserver);
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
          getGetConfigMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.GetConfigRequest,
              dev.taskyard.v1.GetConfigResponse>(
                service, METHODID_GET_CONFIG)))
        .addMethod(
          getReloadConfigMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.ReloadConfigRequest,
              dev.taskyard.v1.ReloadConfigResponse>(
                service, METHODID_RELOAD_CONFIG)))
        .addMethod(
          getDrainServerMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.DrainServerRequest,
              dev.taskyard.v1.DrainServerResponse>(
                service, METHODID_DRAIN_SERVER)))
        .build();
  }

  private static abstract class AdminServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    AdminServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.taskyard.v1.AdminProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("AdminService");
    }
  }

  private static final class AdminServiceFileDescriptorSupplier
      extends AdminServiceBaseDescriptorSupplier {
    AdminServiceFileDescriptorSupplier() {}
  }

  private static final class AdminServiceMethodDescriptorSupplier
      extends AdminServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    AdminServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (AdminServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new AdminServiceFileDescriptorSupplier())
              .addMethod(getGetConfigMethod())
              .addMethod(getReloadConfigMethod())
              .addMethod(getDrainServerMethod())
              .build();
        }
      }
    }
    return result;
  }
}
