package dev.taskyard.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * RuntimeHostService keeps the registry of hosts and holds their streams (runtime-host-model).
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class RuntimeHostServiceGrpc {

  private RuntimeHostServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "taskyard.v1.RuntimeHostService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.ConnectRequest,
      dev.taskyard.v1.ConnectResponse> getConnectMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Connect",
      requestType = dev.taskyard.v1.ConnectRequest.class,
      responseType = dev.taskyard.v1.ConnectResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.ConnectRequest,
      dev.taskyard.v1.ConnectResponse> getConnectMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.ConnectRequest, dev.taskyard.v1.ConnectResponse> getConnectMethod;
    if ((getConnectMethod = RuntimeHostServiceGrpc.getConnectMethod) == null) {
      synchronized (RuntimeHostServiceGrpc.class) {
        if ((getConnectMethod = RuntimeHostServiceGrpc.getConnectMethod) == null) {
          RuntimeHostServiceGrpc.getConnectMethod = getConnectMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.ConnectRequest, dev.taskyard.v1.ConnectResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Connect"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ConnectRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ConnectResponse.getDefaultInstance()))
              .setSchemaDescriptor(new RuntimeHostServiceMethodDescriptorSupplier("Connect"))
              .build();
        }
      }
    }
    return getConnectMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.RegisterHostRequest,
      dev.taskyard.v1.RegisterHostResponse> getRegisterHostMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RegisterHost",
      requestType = dev.taskyard.v1.RegisterHostRequest.class,
      responseType = dev.taskyard.v1.RegisterHostResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.RegisterHostRequest,
      dev.taskyard.v1.RegisterHostResponse> getRegisterHostMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.RegisterHostRequest, dev.taskyard.v1.RegisterHostResponse> getRegisterHostMethod;
    if ((getRegisterHostMethod = RuntimeHostServiceGrpc.getRegisterHostMethod) == null) {
      synchronized (RuntimeHostServiceGrpc.class) {
        if ((getRegisterHostMethod = RuntimeHostServiceGrpc.getRegisterHostMethod) == null) {
          RuntimeHostServiceGrpc.getRegisterHostMethod = getRegisterHostMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.RegisterHostRequest, dev.taskyard.v1.RegisterHostResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RegisterHost"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.RegisterHostRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.RegisterHostResponse.getDefaultInstance()))
              .setSchemaDescriptor(new RuntimeHostServiceMethodDescriptorSupplier("RegisterHost"))
              .build();
        }
      }
    }
    return getRegisterHostMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.HeartbeatHostRequest,
      dev.taskyard.v1.HeartbeatHostResponse> getHeartbeatHostMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "HeartbeatHost",
      requestType = dev.taskyard.v1.HeartbeatHostRequest.class,
      responseType = dev.taskyard.v1.HeartbeatHostResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.HeartbeatHostRequest,
      dev.taskyard.v1.HeartbeatHostResponse> getHeartbeatHostMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.HeartbeatHostRequest, dev.taskyard.v1.HeartbeatHostResponse> getHeartbeatHostMethod;
    if ((getHeartbeatHostMethod = RuntimeHostServiceGrpc.getHeartbeatHostMethod) == null) {
      synchronized (RuntimeHostServiceGrpc.class) {
        if ((getHeartbeatHostMethod = RuntimeHostServiceGrpc.getHeartbeatHostMethod) == null) {
          RuntimeHostServiceGrpc.getHeartbeatHostMethod = getHeartbeatHostMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.HeartbeatHostRequest, dev.taskyard.v1.HeartbeatHostResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "HeartbeatHost"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.HeartbeatHostRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.HeartbeatHostResponse.getDefaultInstance()))
              .setSchemaDescriptor(new RuntimeHostServiceMethodDescriptorSupplier("HeartbeatHost"))
              .build();
        }
      }
    }
    return getHeartbeatHostMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.DeregisterHostRequest,
      dev.taskyard.v1.DeregisterHostResponse> getDeregisterHostMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DeregisterHost",
      requestType = dev.taskyard.v1.DeregisterHostRequest.class,
      responseType = dev.taskyard.v1.DeregisterHostResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.DeregisterHostRequest,
      dev.taskyard.v1.DeregisterHostResponse> getDeregisterHostMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.DeregisterHostRequest, dev.taskyard.v1.DeregisterHostResponse> getDeregisterHostMethod;
    if ((getDeregisterHostMethod = RuntimeHostServiceGrpc.getDeregisterHostMethod) == null) {
      synchronized (RuntimeHostServiceGrpc.class) {
        if ((getDeregisterHostMethod = RuntimeHostServiceGrpc.getDeregisterHostMethod) == null) {
          RuntimeHostServiceGrpc.getDeregisterHostMethod = getDeregisterHostMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.DeregisterHostRequest, dev.taskyard.v1.DeregisterHostResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DeregisterHost"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.DeregisterHostRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.DeregisterHostResponse.getDefaultInstance()))
              .setSchemaDescriptor(new RuntimeHostServiceMethodDescriptorSupplier("DeregisterHost"))
              .build();
        }
      }
    }
    return getDeregisterHostMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.DrainHostRequest,
      dev.taskyard.v1.DrainHostResponse> getDrainHostMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DrainHost",
      requestType = dev.taskyard.v1.DrainHostRequest.class,
      responseType = dev.taskyard.v1.DrainHostResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.DrainHostRequest,
      dev.taskyard.v1.DrainHostResponse> getDrainHostMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.DrainHostRequest, dev.taskyard.v1.DrainHostResponse> getDrainHostMethod;
    if ((getDrainHostMethod = RuntimeHostServiceGrpc.getDrainHostMethod) == null) {
      synchronized (RuntimeHostServiceGrpc.class) {
        if ((getDrainHostMethod = RuntimeHostServiceGrpc.getDrainHostMethod) == null) {
          RuntimeHostServiceGrpc.getDrainHostMethod = getDrainHostMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.DrainHostRequest, dev.taskyard.v1.DrainHostResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DrainHost"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.DrainHostRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.DrainHostResponse.getDefaultInstance()))
              .setSchemaDescriptor(new RuntimeHostServiceMethodDescriptorSupplier("DrainHost"))
              .build();
        }
      }
    }
    return getDrainHostMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.ListHostsRequest,
      dev.taskyard.v1.ListHostsResponse> getListHostsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListHosts",
      requestType = dev.taskyard.v1.ListHostsRequest.class,
      responseType = dev.taskyard.v1.ListHostsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.ListHostsRequest,
      dev.taskyard.v1.ListHostsResponse> getListHostsMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.ListHostsRequest, dev.taskyard.v1.ListHostsResponse> getListHostsMethod;
    if ((getListHostsMethod = RuntimeHostServiceGrpc.getListHostsMethod) == null) {
      synchronized (RuntimeHostServiceGrpc.class) {
        if ((getListHostsMethod = RuntimeHostServiceGrpc.getListHostsMethod) == null) {
          RuntimeHostServiceGrpc.getListHostsMethod = getListHostsMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.ListHostsRequest, dev.taskyard.v1.ListHostsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListHosts"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ListHostsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ListHostsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new RuntimeHostServiceMethodDescriptorSupplier("ListHosts"))
              .build();
        }
      }
    }
    return getListHostsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.WatchHostsRequest,
      dev.taskyard.v1.WatchHostsResponse> getWatchHostsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WatchHosts",
      requestType = dev.taskyard.v1.WatchHostsRequest.class,
      responseType = dev.taskyard.v1.WatchHostsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.WatchHostsRequest,
      dev.taskyard.v1.WatchHostsResponse> getWatchHostsMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.WatchHostsRequest, dev.taskyard.v1.WatchHostsResponse> getWatchHostsMethod;
    if ((getWatchHostsMethod = RuntimeHostServiceGrpc.getWatchHostsMethod) == null) {
      synchronized (RuntimeHostServiceGrpc.class) {
        if ((getWatchHostsMethod = RuntimeHostServiceGrpc.getWatchHostsMethod) == null) {
          RuntimeHostServiceGrpc.getWatchHostsMethod = getWatchHostsMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.WatchHostsRequest, dev.taskyard.v1.WatchHostsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WatchHosts"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.WatchHostsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.WatchHostsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new RuntimeHostServiceMethodDescriptorSupplier("WatchHosts"))
              .build();
        }
      }
    }
    return getWatchHostsMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static RuntimeHostServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<RuntimeHostServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<RuntimeHostServiceStub>() {
        @java.lang.Override
        public RuntimeHostServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new RuntimeHostServiceStub(channel, callOptions);
        }
      };
    return RuntimeHostServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static RuntimeHostServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<RuntimeHostServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<RuntimeHostServiceBlockingV2Stub>() {
        @java.lang.Override
        public RuntimeHostServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new RuntimeHostServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return RuntimeHostServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static RuntimeHostServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<RuntimeHostServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<RuntimeHostServiceBlockingStub>() {
        @java.lang.Override
        public RuntimeHostServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new RuntimeHostServiceBlockingStub(channel, callOptions);
        }
      };
    return RuntimeHostServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static RuntimeHostServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<RuntimeHostServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<RuntimeHostServiceFutureStub>() {
        @java.lang.Override
        public RuntimeHostServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new RuntimeHostServiceFutureStub(channel, callOptions);
        }
      };
    return RuntimeHostServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * RuntimeHostService keeps the registry of hosts and holds their streams (runtime-host-model).
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * The whole work of a host over one stream: it registers, is handed tasks, reports on them and shows that it lives.
     * The host sends Hello first and is answered with Welcome; then both sides send when they have something, many at
     * once if many are there. The host is never handed more than the credit it gave. A second stream of the same host
     * instance supersedes the first. When a stream breaks, its leases live on for `reconnectGraceSecs` (default 5), never
     * past their own end: a host that is back by then keeps them by listing them in its Hello. The host leaves by
     * half-closing; leases that it then still holds end as after a break.
     * Errors: `bad_request` (no Hello first, a second Hello, no host id), `already_exists` (another instance of this host
     * lives), `conflict` (with the detail `cause`: `superseded`, which is final, or `deregistered`). A refused report never
     * ends the stream.
     * Retry: safe, and meant: reconnect with backoff and the held leases; after `deregistered` without any.
     * </pre>
     */
    default io.grpc.stub.StreamObserver<dev.taskyard.v1.ConnectRequest> connect(
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ConnectResponse> responseObserver) {
      return io.grpc.stub.ServerCalls.asyncUnimplementedStreamingCall(getConnectMethod(), responseObserver);
    }

    /**
     * <pre>
     * Registers a host, or replaces what is known of it, and counts as a heartbeat. `registered_at` and its leases stay.
     * Errors: `bad_request` (no host id).
     * Retry: safe.
     * </pre>
     */
    default void registerHost(dev.taskyard.v1.RegisterHostRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.RegisterHostResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRegisterHostMethod(), responseObserver);
    }

    /**
     * <pre>
     * Shows that a host lives. It renews no leases; RenewLease does.
     * Errors: `not_found` (register again).
     * Retry: safe.
     * </pre>
     */
    default void heartbeatHost(dev.taskyard.v1.HeartbeatHostRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.HeartbeatHostResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getHeartbeatHostMethod(), responseObserver);
    }

    /**
     * <pre>
     * Removes a host and its leases, whose tasks go back to the queue at once.
     * Errors: `not_found`.
     * Retry: safe; a repeat of a call that worked answers `not_found`.
     * </pre>
     */
    default void deregisterHost(dev.taskyard.v1.DeregisterHostRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.DeregisterHostResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDeregisterHostMethod(), responseObserver);
    }

    /**
     * <pre>
     * Hands a host nothing new from now on, and tells it to finish and leave. Registering again ends the drain.
     * Errors: `not_found`.
     * Retry: safe; a later deadline replaces the earlier one.
     * </pre>
     */
    default void drainHost(dev.taskyard.v1.DrainHostRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.DrainHostResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDrainHostMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists the hosts, in order of registration.
     * Errors: `bad_request` (a page token of another query).
     * Retry: safe.
     * </pre>
     */
    default void listHosts(dev.taskyard.v1.ListHostsRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ListHostsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListHostsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Streams the hosts as they stand, then what happens to them. A quiet stream gets an empty message every 15 s.
     * Errors: `unavailable` when the server shuts down.
     * Retry: safe; a new watch begins with the hosts as they stand.
     * </pre>
     */
    default void watchHosts(dev.taskyard.v1.WatchHostsRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.WatchHostsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWatchHostsMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service RuntimeHostService.
   * <pre>
   * RuntimeHostService keeps the registry of hosts and holds their streams (runtime-host-model).
   * </pre>
   */
  public static abstract class RuntimeHostServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return RuntimeHostServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service RuntimeHostService.
   * <pre>
   * RuntimeHostService keeps the registry of hosts and holds their streams (runtime-host-model).
   * </pre>
   */
  public static final class RuntimeHostServiceStub
      extends io.grpc.stub.AbstractAsyncStub<RuntimeHostServiceStub> {
    private RuntimeHostServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected RuntimeHostServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new RuntimeHostServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * The whole work of a host over one stream: it registers, is handed tasks, reports on them and shows that it lives.
     * The host sends Hello first and is answered with Welcome; then both sides send when they have something, many at
     * once if many are there. The host is never handed more than the credit it gave. A second stream of the same host
     * instance supersedes the first. When a stream breaks, its leases live on for `reconnectGraceSecs` (default 5), never
     * past their own end: a host that is back by then keeps them by listing them in its Hello. The host leaves by
     * half-closing; leases that it then still holds end as after a break.
     * Errors: `bad_request` (no Hello first, a second Hello, no host id), `already_exists` (another instance of this host
     * lives), `conflict` (with the detail `cause`: `superseded`, which is final, or `deregistered`). A refused report never
     * ends the stream.
     * Retry: safe, and meant: reconnect with backoff and the held leases; after `deregistered` without any.
     * </pre>
     */
    public io.grpc.stub.StreamObserver<dev.taskyard.v1.ConnectRequest> connect(
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ConnectResponse> responseObserver) {
      return io.grpc.stub.ClientCalls.asyncBidiStreamingCall(
          getChannel().newCall(getConnectMethod(), getCallOptions()), responseObserver);
    }

    /**
     * <pre>
     * Registers a host, or replaces what is known of it, and counts as a heartbeat. `registered_at` and its leases stay.
     * Errors: `bad_request` (no host id).
     * Retry: safe.
     * </pre>
     */
    public void registerHost(dev.taskyard.v1.RegisterHostRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.RegisterHostResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRegisterHostMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Shows that a host lives. It renews no leases; RenewLease does.
     * Errors: `not_found` (register again).
     * Retry: safe.
     * </pre>
     */
    public void heartbeatHost(dev.taskyard.v1.HeartbeatHostRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.HeartbeatHostResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getHeartbeatHostMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Removes a host and its leases, whose tasks go back to the queue at once.
     * Errors: `not_found`.
     * Retry: safe; a repeat of a call that worked answers `not_found`.
     * </pre>
     */
    public void deregisterHost(dev.taskyard.v1.DeregisterHostRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.DeregisterHostResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDeregisterHostMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Hands a host nothing new from now on, and tells it to finish and leave. Registering again ends the drain.
     * Errors: `not_found`.
     * Retry: safe; a later deadline replaces the earlier one.
     * </pre>
     */
    public void drainHost(dev.taskyard.v1.DrainHostRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.DrainHostResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDrainHostMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists the hosts, in order of registration.
     * Errors: `bad_request` (a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public void listHosts(dev.taskyard.v1.ListHostsRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ListHostsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListHostsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Streams the hosts as they stand, then what happens to them. A quiet stream gets an empty message every 15 s.
     * Errors: `unavailable` when the server shuts down.
     * Retry: safe; a new watch begins with the hosts as they stand.
     * </pre>
     */
    public void watchHosts(dev.taskyard.v1.WatchHostsRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.WatchHostsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getWatchHostsMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service RuntimeHostService.
   * <pre>
   * RuntimeHostService keeps the registry of hosts and holds their streams (runtime-host-model).
   * </pre>
   */
  public static final class RuntimeHostServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<RuntimeHostServiceBlockingV2Stub> {
    private RuntimeHostServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected RuntimeHostServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new RuntimeHostServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * The whole work of a host over one stream: it registers, is handed tasks, reports on them and shows that it lives.
     * The host sends Hello first and is answered with Welcome; then both sides send when they have something, many at
     * once if many are there. The host is never handed more than the credit it gave. A second stream of the same host
     * instance supersedes the first. When a stream breaks, its leases live on for `reconnectGraceSecs` (default 5), never
     * past their own end: a host that is back by then keeps them by listing them in its Hello. The host leaves by
     * half-closing; leases that it then still holds end as after a break.
     * Errors: `bad_request` (no Hello first, a second Hello, no host id), `already_exists` (another instance of this host
     * lives), `conflict` (with the detail `cause`: `superseded`, which is final, or `deregistered`). A refused report never
     * ends the stream.
     * Retry: safe, and meant: reconnect with backoff and the held leases; after `deregistered` without any.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<dev.taskyard.v1.ConnectRequest, dev.taskyard.v1.ConnectResponse>
        connect() {
      return io.grpc.stub.ClientCalls.blockingBidiStreamingCall(
          getChannel(), getConnectMethod(), getCallOptions());
    }

    /**
     * <pre>
     * Registers a host, or replaces what is known of it, and counts as a heartbeat. `registered_at` and its leases stay.
     * Errors: `bad_request` (no host id).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.RegisterHostResponse registerHost(dev.taskyard.v1.RegisterHostRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRegisterHostMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Shows that a host lives. It renews no leases; RenewLease does.
     * Errors: `not_found` (register again).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.HeartbeatHostResponse heartbeatHost(dev.taskyard.v1.HeartbeatHostRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getHeartbeatHostMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Removes a host and its leases, whose tasks go back to the queue at once.
     * Errors: `not_found`.
     * Retry: safe; a repeat of a call that worked answers `not_found`.
     * </pre>
     */
    public dev.taskyard.v1.DeregisterHostResponse deregisterHost(dev.taskyard.v1.DeregisterHostRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDeregisterHostMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Hands a host nothing new from now on, and tells it to finish and leave. Registering again ends the drain.
     * Errors: `not_found`.
     * Retry: safe; a later deadline replaces the earlier one.
     * </pre>
     */
    public dev.taskyard.v1.DrainHostResponse drainHost(dev.taskyard.v1.DrainHostRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDrainHostMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the hosts, in order of registration.
     * Errors: `bad_request` (a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ListHostsResponse listHosts(dev.taskyard.v1.ListHostsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListHostsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Streams the hosts as they stand, then what happens to them. A quiet stream gets an empty message every 15 s.
     * Errors: `unavailable` when the server shuts down.
     * Retry: safe; a new watch begins with the hosts as they stand.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, dev.taskyard.v1.WatchHostsResponse>
        watchHosts(dev.taskyard.v1.WatchHostsRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getWatchHostsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service RuntimeHostService.
   * <pre>
   * RuntimeHostService keeps the registry of hosts and holds their streams (runtime-host-model).
   * </pre>
   */
  public static final class RuntimeHostServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<RuntimeHostServiceBlockingStub> {
    private RuntimeHostServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected RuntimeHostServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new RuntimeHostServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Registers a host, or replaces what is known of it, and counts as a heartbeat. `registered_at` and its leases stay.
     * Errors: `bad_request` (no host id).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.RegisterHostResponse registerHost(dev.taskyard.v1.RegisterHostRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRegisterHostMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Shows that a host lives. It renews no leases; RenewLease does.
     * Errors: `not_found` (register again).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.HeartbeatHostResponse heartbeatHost(dev.taskyard.v1.HeartbeatHostRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getHeartbeatHostMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Removes a host and its leases, whose tasks go back to the queue at once.
     * Errors: `not_found`.
     * Retry: safe; a repeat of a call that worked answers `not_found`.
     * </pre>
     */
    public dev.taskyard.v1.DeregisterHostResponse deregisterHost(dev.taskyard.v1.DeregisterHostRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDeregisterHostMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Hands a host nothing new from now on, and tells it to finish and leave. Registering again ends the drain.
     * Errors: `not_found`.
     * Retry: safe; a later deadline replaces the earlier one.
     * </pre>
     */
    public dev.taskyard.v1.DrainHostResponse drainHost(dev.taskyard.v1.DrainHostRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDrainHostMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the hosts, in order of registration.
     * Errors: `bad_request` (a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ListHostsResponse listHosts(dev.taskyard.v1.ListHostsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListHostsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Streams the hosts as they stand, then what happens to them. A quiet stream gets an empty message every 15 s.
     * Errors: `unavailable` when the server shuts down.
     * Retry: safe; a new watch begins with the hosts as they stand.
     * </pre>
     */
    public java.util.Iterator<dev.taskyard.v1.WatchHostsResponse> watchHosts(
        dev.taskyard.v1.WatchHostsRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getWatchHostsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service RuntimeHostService.
   * <pre>
   * RuntimeHostService keeps the registry of hosts and holds their streams (runtime-host-model).
   * </pre>
   */
  public static final class RuntimeHostServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<RuntimeHostServiceFutureStub> {
    private RuntimeHostServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected RuntimeHostServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new RuntimeHostServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Registers a host, or replaces what is known of it, and counts as a heartbeat. `registered_at` and its leases stay.
     * Errors: `bad_request` (no host id).
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.RegisterHostResponse> registerHost(
        dev.taskyard.v1.RegisterHostRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRegisterHostMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Shows that a host lives. It renews no leases; RenewLease does.
     * Errors: `not_found` (register again).
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.HeartbeatHostResponse> heartbeatHost(
        dev.taskyard.v1.HeartbeatHostRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getHeartbeatHostMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Removes a host and its leases, whose tasks go back to the queue at once.
     * Errors: `not_found`.
     * Retry: safe; a repeat of a call that worked answers `not_found`.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.DeregisterHostResponse> deregisterHost(
        dev.taskyard.v1.DeregisterHostRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDeregisterHostMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Hands a host nothing new from now on, and tells it to finish and leave. Registering again ends the drain.
     * Errors: `not_found`.
     * Retry: safe; a later deadline replaces the earlier one.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.DrainHostResponse> drainHost(
        dev.taskyard.v1.DrainHostRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDrainHostMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists the hosts, in order of registration.
     * Errors: `bad_request` (a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.ListHostsResponse> listHosts(
        dev.taskyard.v1.ListHostsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListHostsMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_REGISTER_HOST = 0;
  private static final int METHODID_HEARTBEAT_HOST = 1;
  private static final int METHODID_DEREGISTER_HOST = 2;
  private static final int METHODID_DRAIN_HOST = 3;
  private static final int METHODID_LIST_HOSTS = 4;
  private static final int METHODID_WATCH_HOSTS = 5;
  private static final int METHODID_CONNECT = 6;

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
        case METHODID_REGISTER_HOST:
          serviceImpl.registerHost((dev.taskyard.v1.RegisterHostRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.RegisterHostResponse>) responseObserver);
          break;
        case METHODID_HEARTBEAT_HOST:
          serviceImpl.heartbeatHost((dev.taskyard.v1.HeartbeatHostRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.HeartbeatHostResponse>) responseObserver);
          break;
        case METHODID_DEREGISTER_HOST:
          serviceImpl.deregisterHost((dev.taskyard.v1.DeregisterHostRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.DeregisterHostResponse>) responseObserver);
          break;
        case METHODID_DRAIN_HOST:
          serviceImpl.drainHost((dev.taskyard.v1.DrainHostRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.DrainHostResponse>) responseObserver);
          break;
        case METHODID_LIST_HOSTS:
          serviceImpl.listHosts((dev.taskyard.v1.ListHostsRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.ListHostsResponse>) responseObserver);
          break;
        case METHODID_WATCH_HOSTS:
          serviceImpl.watchHosts((dev.taskyard.v1.WatchHostsRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.WatchHostsResponse>) responseObserver);
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
        case METHODID_CONNECT:
          return (io.grpc.stub.StreamObserver<Req>) serviceImpl.connect(
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.ConnectResponse>) responseObserver);
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getConnectMethod(),
          io.grpc.stub.ServerCalls.asyncBidiStreamingCall(
            new MethodHandlers<
              dev.taskyard.v1.ConnectRequest,
              dev.taskyard.v1.ConnectResponse>(
                service, METHODID_CONNECT)))
        .addMethod(
          getRegisterHostMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.RegisterHostRequest,
              dev.taskyard.v1.RegisterHostResponse>(
                service, METHODID_REGISTER_HOST)))
        .addMethod(
          getHeartbeatHostMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.HeartbeatHostRequest,
              dev.taskyard.v1.HeartbeatHostResponse>(
                service, METHODID_HEARTBEAT_HOST)))
        .addMethod(
          getDeregisterHostMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.DeregisterHostRequest,
              dev.taskyard.v1.DeregisterHostResponse>(
                service, METHODID_DEREGISTER_HOST)))
        .addMethod(
          getDrainHostMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.DrainHostRequest,
              dev.taskyard.v1.DrainHostResponse>(
                service, METHODID_DRAIN_HOST)))
        .addMethod(
          getListHostsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.ListHostsRequest,
              dev.taskyard.v1.ListHostsResponse>(
                service, METHODID_LIST_HOSTS)))
        .addMethod(
          getWatchHostsMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              dev.taskyard.v1.WatchHostsRequest,
              dev.taskyard.v1.WatchHostsResponse>(
                service, METHODID_WATCH_HOSTS)))
        .build();
  }

  private static abstract class RuntimeHostServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    RuntimeHostServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.taskyard.v1.RuntimeHostProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("RuntimeHostService");
    }
  }

  private static final class RuntimeHostServiceFileDescriptorSupplier
      extends RuntimeHostServiceBaseDescriptorSupplier {
    RuntimeHostServiceFileDescriptorSupplier() {}
  }

  private static final class RuntimeHostServiceMethodDescriptorSupplier
      extends RuntimeHostServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    RuntimeHostServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (RuntimeHostServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new RuntimeHostServiceFileDescriptorSupplier())
              .addMethod(getConnectMethod())
              .addMethod(getRegisterHostMethod())
              .addMethod(getHeartbeatHostMethod())
              .addMethod(getDeregisterHostMethod())
              .addMethod(getDrainHostMethod())
              .addMethod(getListHostsMethod())
              .addMethod(getWatchHostsMethod())
              .build();
        }
      }
    }
    return result;
  }
}
