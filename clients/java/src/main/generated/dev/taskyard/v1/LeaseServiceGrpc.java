package dev.taskyard.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * LeaseService hands out tasks and takes reports (runtime-host-model).
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class LeaseServiceGrpc {

  private LeaseServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "taskyard.v1.LeaseService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.ClaimTaskRequest,
      dev.taskyard.v1.ClaimTaskResponse> getClaimTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ClaimTask",
      requestType = dev.taskyard.v1.ClaimTaskRequest.class,
      responseType = dev.taskyard.v1.ClaimTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.ClaimTaskRequest,
      dev.taskyard.v1.ClaimTaskResponse> getClaimTaskMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.ClaimTaskRequest, dev.taskyard.v1.ClaimTaskResponse> getClaimTaskMethod;
    if ((getClaimTaskMethod = LeaseServiceGrpc.getClaimTaskMethod) == null) {
      synchronized (LeaseServiceGrpc.class) {
        if ((getClaimTaskMethod = LeaseServiceGrpc.getClaimTaskMethod) == null) {
          LeaseServiceGrpc.getClaimTaskMethod = getClaimTaskMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.ClaimTaskRequest, dev.taskyard.v1.ClaimTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ClaimTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ClaimTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ClaimTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LeaseServiceMethodDescriptorSupplier("ClaimTask"))
              .build();
        }
      }
    }
    return getClaimTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.ClaimTasksRequest,
      dev.taskyard.v1.ClaimTasksResponse> getClaimTasksMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ClaimTasks",
      requestType = dev.taskyard.v1.ClaimTasksRequest.class,
      responseType = dev.taskyard.v1.ClaimTasksResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.ClaimTasksRequest,
      dev.taskyard.v1.ClaimTasksResponse> getClaimTasksMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.ClaimTasksRequest, dev.taskyard.v1.ClaimTasksResponse> getClaimTasksMethod;
    if ((getClaimTasksMethod = LeaseServiceGrpc.getClaimTasksMethod) == null) {
      synchronized (LeaseServiceGrpc.class) {
        if ((getClaimTasksMethod = LeaseServiceGrpc.getClaimTasksMethod) == null) {
          LeaseServiceGrpc.getClaimTasksMethod = getClaimTasksMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.ClaimTasksRequest, dev.taskyard.v1.ClaimTasksResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ClaimTasks"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ClaimTasksRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ClaimTasksResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LeaseServiceMethodDescriptorSupplier("ClaimTasks"))
              .build();
        }
      }
    }
    return getClaimTasksMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.RenewLeaseRequest,
      dev.taskyard.v1.RenewLeaseResponse> getRenewLeaseMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RenewLease",
      requestType = dev.taskyard.v1.RenewLeaseRequest.class,
      responseType = dev.taskyard.v1.RenewLeaseResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.RenewLeaseRequest,
      dev.taskyard.v1.RenewLeaseResponse> getRenewLeaseMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.RenewLeaseRequest, dev.taskyard.v1.RenewLeaseResponse> getRenewLeaseMethod;
    if ((getRenewLeaseMethod = LeaseServiceGrpc.getRenewLeaseMethod) == null) {
      synchronized (LeaseServiceGrpc.class) {
        if ((getRenewLeaseMethod = LeaseServiceGrpc.getRenewLeaseMethod) == null) {
          LeaseServiceGrpc.getRenewLeaseMethod = getRenewLeaseMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.RenewLeaseRequest, dev.taskyard.v1.RenewLeaseResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RenewLease"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.RenewLeaseRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.RenewLeaseResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LeaseServiceMethodDescriptorSupplier("RenewLease"))
              .build();
        }
      }
    }
    return getRenewLeaseMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.StartTaskRequest,
      dev.taskyard.v1.StartTaskResponse> getStartTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "StartTask",
      requestType = dev.taskyard.v1.StartTaskRequest.class,
      responseType = dev.taskyard.v1.StartTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.StartTaskRequest,
      dev.taskyard.v1.StartTaskResponse> getStartTaskMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.StartTaskRequest, dev.taskyard.v1.StartTaskResponse> getStartTaskMethod;
    if ((getStartTaskMethod = LeaseServiceGrpc.getStartTaskMethod) == null) {
      synchronized (LeaseServiceGrpc.class) {
        if ((getStartTaskMethod = LeaseServiceGrpc.getStartTaskMethod) == null) {
          LeaseServiceGrpc.getStartTaskMethod = getStartTaskMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.StartTaskRequest, dev.taskyard.v1.StartTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "StartTask"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.StartTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.StartTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LeaseServiceMethodDescriptorSupplier("StartTask"))
              .build();
        }
      }
    }
    return getStartTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.ReportProgressRequest,
      dev.taskyard.v1.ReportProgressResponse> getReportProgressMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ReportProgress",
      requestType = dev.taskyard.v1.ReportProgressRequest.class,
      responseType = dev.taskyard.v1.ReportProgressResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.ReportProgressRequest,
      dev.taskyard.v1.ReportProgressResponse> getReportProgressMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.ReportProgressRequest, dev.taskyard.v1.ReportProgressResponse> getReportProgressMethod;
    if ((getReportProgressMethod = LeaseServiceGrpc.getReportProgressMethod) == null) {
      synchronized (LeaseServiceGrpc.class) {
        if ((getReportProgressMethod = LeaseServiceGrpc.getReportProgressMethod) == null) {
          LeaseServiceGrpc.getReportProgressMethod = getReportProgressMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.ReportProgressRequest, dev.taskyard.v1.ReportProgressResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ReportProgress"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ReportProgressRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ReportProgressResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LeaseServiceMethodDescriptorSupplier("ReportProgress"))
              .build();
        }
      }
    }
    return getReportProgressMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.CompleteTaskRequest,
      dev.taskyard.v1.CompleteTaskResponse> getCompleteTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CompleteTask",
      requestType = dev.taskyard.v1.CompleteTaskRequest.class,
      responseType = dev.taskyard.v1.CompleteTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.CompleteTaskRequest,
      dev.taskyard.v1.CompleteTaskResponse> getCompleteTaskMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.CompleteTaskRequest, dev.taskyard.v1.CompleteTaskResponse> getCompleteTaskMethod;
    if ((getCompleteTaskMethod = LeaseServiceGrpc.getCompleteTaskMethod) == null) {
      synchronized (LeaseServiceGrpc.class) {
        if ((getCompleteTaskMethod = LeaseServiceGrpc.getCompleteTaskMethod) == null) {
          LeaseServiceGrpc.getCompleteTaskMethod = getCompleteTaskMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.CompleteTaskRequest, dev.taskyard.v1.CompleteTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CompleteTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.CompleteTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.CompleteTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LeaseServiceMethodDescriptorSupplier("CompleteTask"))
              .build();
        }
      }
    }
    return getCompleteTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.FailTaskRequest,
      dev.taskyard.v1.FailTaskResponse> getFailTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "FailTask",
      requestType = dev.taskyard.v1.FailTaskRequest.class,
      responseType = dev.taskyard.v1.FailTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.FailTaskRequest,
      dev.taskyard.v1.FailTaskResponse> getFailTaskMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.FailTaskRequest, dev.taskyard.v1.FailTaskResponse> getFailTaskMethod;
    if ((getFailTaskMethod = LeaseServiceGrpc.getFailTaskMethod) == null) {
      synchronized (LeaseServiceGrpc.class) {
        if ((getFailTaskMethod = LeaseServiceGrpc.getFailTaskMethod) == null) {
          LeaseServiceGrpc.getFailTaskMethod = getFailTaskMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.FailTaskRequest, dev.taskyard.v1.FailTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "FailTask"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.FailTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.FailTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LeaseServiceMethodDescriptorSupplier("FailTask"))
              .build();
        }
      }
    }
    return getFailTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.ReleaseTaskRequest,
      dev.taskyard.v1.ReleaseTaskResponse> getReleaseTaskMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ReleaseTask",
      requestType = dev.taskyard.v1.ReleaseTaskRequest.class,
      responseType = dev.taskyard.v1.ReleaseTaskResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.ReleaseTaskRequest,
      dev.taskyard.v1.ReleaseTaskResponse> getReleaseTaskMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.ReleaseTaskRequest, dev.taskyard.v1.ReleaseTaskResponse> getReleaseTaskMethod;
    if ((getReleaseTaskMethod = LeaseServiceGrpc.getReleaseTaskMethod) == null) {
      synchronized (LeaseServiceGrpc.class) {
        if ((getReleaseTaskMethod = LeaseServiceGrpc.getReleaseTaskMethod) == null) {
          LeaseServiceGrpc.getReleaseTaskMethod = getReleaseTaskMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.ReleaseTaskRequest, dev.taskyard.v1.ReleaseTaskResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ReleaseTask"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ReleaseTaskRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ReleaseTaskResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LeaseServiceMethodDescriptorSupplier("ReleaseTask"))
              .build();
        }
      }
    }
    return getReleaseTaskMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.ListLeasesRequest,
      dev.taskyard.v1.ListLeasesResponse> getListLeasesMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListLeases",
      requestType = dev.taskyard.v1.ListLeasesRequest.class,
      responseType = dev.taskyard.v1.ListLeasesResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.ListLeasesRequest,
      dev.taskyard.v1.ListLeasesResponse> getListLeasesMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.ListLeasesRequest, dev.taskyard.v1.ListLeasesResponse> getListLeasesMethod;
    if ((getListLeasesMethod = LeaseServiceGrpc.getListLeasesMethod) == null) {
      synchronized (LeaseServiceGrpc.class) {
        if ((getListLeasesMethod = LeaseServiceGrpc.getListLeasesMethod) == null) {
          LeaseServiceGrpc.getListLeasesMethod = getListLeasesMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.ListLeasesRequest, dev.taskyard.v1.ListLeasesResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListLeases"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ListLeasesRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ListLeasesResponse.getDefaultInstance()))
              .setSchemaDescriptor(new LeaseServiceMethodDescriptorSupplier("ListLeases"))
              .build();
        }
      }
    }
    return getListLeasesMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static LeaseServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<LeaseServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<LeaseServiceStub>() {
        @java.lang.Override
        public LeaseServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new LeaseServiceStub(channel, callOptions);
        }
      };
    return LeaseServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static LeaseServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<LeaseServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<LeaseServiceBlockingV2Stub>() {
        @java.lang.Override
        public LeaseServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new LeaseServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return LeaseServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static LeaseServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<LeaseServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<LeaseServiceBlockingStub>() {
        @java.lang.Override
        public LeaseServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new LeaseServiceBlockingStub(channel, callOptions);
        }
      };
    return LeaseServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static LeaseServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<LeaseServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<LeaseServiceFutureStub>() {
        @java.lang.Override
        public LeaseServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new LeaseServiceFutureStub(channel, callOptions);
        }
      };
    return LeaseServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * LeaseService hands out tasks and takes reports (runtime-host-model).
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Leases one task to a host: the next one that fairness, the limits, its target and the host's abilities allow.
     * Errors: `not_found` (the host is not registered), `bad_request` (a lease outside 1 to 3,600 s).
     * Retry: not blindly; a lost answer may have leased a task, which comes back when that lease expires.
     * </pre>
     */
    default void claimTask(dev.taskyard.v1.ClaimTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ClaimTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getClaimTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * Leases up to `max_tasks` tasks to a host at once, in claim order.
     * Errors: those of ClaimTask, `bad_request` (no tasks asked for, or more than 1,000).
     * Retry: as ClaimTask.
     * </pre>
     */
    default void claimTasks(dev.taskyard.v1.ClaimTasksRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ClaimTasksResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getClaimTasksMethod(), responseObserver);
    }

    /**
     * <pre>
     * Prolongs a lease to at least now plus its length, never to less than it had.
     * Errors: `not_found` (no such host or task), `lease_lost`, `bad_request` (a lease outside 1 to 3,600 s).
     * Retry: safe.
     * </pre>
     */
    default void renewLease(dev.taskyard.v1.RenewLeaseRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.RenewLeaseResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRenewLeaseMethod(), responseObserver);
    }

    /**
     * <pre>
     * Reports that the host has begun: the task is `running`.
     * Errors: `not_found`, `lease_lost`.
     * Retry: safe.
     * </pre>
     */
    default void startTask(dev.taskyard.v1.StartTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.StartTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getStartTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * Reports how far the host is, and the tokens used. Over the task's budget the task fails with
     * `token limit exceeded` and the lease ends. Without a start report before, it counts as both.
     * Errors: `not_found`, `lease_lost`, `too_large` (details).
     * Retry: safe.
     * </pre>
     */
    default void reportProgress(dev.taskyard.v1.ReportProgressRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ReportProgressResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getReportProgressMethod(), responseObserver);
    }

    /**
     * <pre>
     * Ends the task as `done`. Without a start report before, it counts as both.
     * Errors: `not_found`, `lease_lost`, `too_large` (result).
     * Retry: safe; a repeat of a call that worked answers `lease_lost`.
     * </pre>
     */
    default void completeTask(dev.taskyard.v1.CompleteTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.CompleteTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCompleteTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * Ends the attempt with an error: the task is `failed`, or waits for its next attempt if its retry policy allows.
     * Errors: `not_found`, `lease_lost`, `bad_request` (no error given).
     * Retry: safe; a repeat of a call that worked answers `lease_lost`.
     * </pre>
     */
    default void failTask(dev.taskyard.v1.FailTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.FailTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getFailTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * Says that nothing runs for this lease any more.
     * A live lease ends and its task goes back to the queue, keeping its place. If the lease has ended before, however
     * long ago and whoever holds a later one, the task stays as it is, and a target that waited for the host to stop is
     * free.
     * Errors: `not_found` (also a task that is not kept any more), `lease_lost` (the token is of another host's lease, the
     * task's last one, or of none so far).
     * Retry: safe.
     * </pre>
     */
    default void releaseTask(dev.taskyard.v1.ReleaseTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ReleaseTaskResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getReleaseTaskMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists the live leases, oldest claim first.
     * Errors: `not_found` (no such host), `bad_request` (a page token of another query).
     * Retry: safe.
     * </pre>
     */
    default void listLeases(dev.taskyard.v1.ListLeasesRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ListLeasesResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListLeasesMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service LeaseService.
   * <pre>
   * LeaseService hands out tasks and takes reports (runtime-host-model).
   * </pre>
   */
  public static abstract class LeaseServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return LeaseServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service LeaseService.
   * <pre>
   * LeaseService hands out tasks and takes reports (runtime-host-model).
   * </pre>
   */
  public static final class LeaseServiceStub
      extends io.grpc.stub.AbstractAsyncStub<LeaseServiceStub> {
    private LeaseServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected LeaseServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new LeaseServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Leases one task to a host: the next one that fairness, the limits, its target and the host's abilities allow.
     * Errors: `not_found` (the host is not registered), `bad_request` (a lease outside 1 to 3,600 s).
     * Retry: not blindly; a lost answer may have leased a task, which comes back when that lease expires.
     * </pre>
     */
    public void claimTask(dev.taskyard.v1.ClaimTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ClaimTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getClaimTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Leases up to `max_tasks` tasks to a host at once, in claim order.
     * Errors: those of ClaimTask, `bad_request` (no tasks asked for, or more than 1,000).
     * Retry: as ClaimTask.
     * </pre>
     */
    public void claimTasks(dev.taskyard.v1.ClaimTasksRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ClaimTasksResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getClaimTasksMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Prolongs a lease to at least now plus its length, never to less than it had.
     * Errors: `not_found` (no such host or task), `lease_lost`, `bad_request` (a lease outside 1 to 3,600 s).
     * Retry: safe.
     * </pre>
     */
    public void renewLease(dev.taskyard.v1.RenewLeaseRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.RenewLeaseResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRenewLeaseMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Reports that the host has begun: the task is `running`.
     * Errors: `not_found`, `lease_lost`.
     * Retry: safe.
     * </pre>
     */
    public void startTask(dev.taskyard.v1.StartTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.StartTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getStartTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Reports how far the host is, and the tokens used. Over the task's budget the task fails with
     * `token limit exceeded` and the lease ends. Without a start report before, it counts as both.
     * Errors: `not_found`, `lease_lost`, `too_large` (details).
     * Retry: safe.
     * </pre>
     */
    public void reportProgress(dev.taskyard.v1.ReportProgressRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ReportProgressResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getReportProgressMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Ends the task as `done`. Without a start report before, it counts as both.
     * Errors: `not_found`, `lease_lost`, `too_large` (result).
     * Retry: safe; a repeat of a call that worked answers `lease_lost`.
     * </pre>
     */
    public void completeTask(dev.taskyard.v1.CompleteTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.CompleteTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCompleteTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Ends the attempt with an error: the task is `failed`, or waits for its next attempt if its retry policy allows.
     * Errors: `not_found`, `lease_lost`, `bad_request` (no error given).
     * Retry: safe; a repeat of a call that worked answers `lease_lost`.
     * </pre>
     */
    public void failTask(dev.taskyard.v1.FailTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.FailTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getFailTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Says that nothing runs for this lease any more.
     * A live lease ends and its task goes back to the queue, keeping its place. If the lease has ended before, however
     * long ago and whoever holds a later one, the task stays as it is, and a target that waited for the host to stop is
     * free.
     * Errors: `not_found` (also a task that is not kept any more), `lease_lost` (the token is of another host's lease, the
     * task's last one, or of none so far).
     * Retry: safe.
     * </pre>
     */
    public void releaseTask(dev.taskyard.v1.ReleaseTaskRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ReleaseTaskResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getReleaseTaskMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists the live leases, oldest claim first.
     * Errors: `not_found` (no such host), `bad_request` (a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public void listLeases(dev.taskyard.v1.ListLeasesRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ListLeasesResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListLeasesMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service LeaseService.
   * <pre>
   * LeaseService hands out tasks and takes reports (runtime-host-model).
   * </pre>
   */
  public static final class LeaseServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<LeaseServiceBlockingV2Stub> {
    private LeaseServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected LeaseServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new LeaseServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Leases one task to a host: the next one that fairness, the limits, its target and the host's abilities allow.
     * Errors: `not_found` (the host is not registered), `bad_request` (a lease outside 1 to 3,600 s).
     * Retry: not blindly; a lost answer may have leased a task, which comes back when that lease expires.
     * </pre>
     */
    public dev.taskyard.v1.ClaimTaskResponse claimTask(dev.taskyard.v1.ClaimTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getClaimTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Leases up to `max_tasks` tasks to a host at once, in claim order.
     * Errors: those of ClaimTask, `bad_request` (no tasks asked for, or more than 1,000).
     * Retry: as ClaimTask.
     * </pre>
     */
    public dev.taskyard.v1.ClaimTasksResponse claimTasks(dev.taskyard.v1.ClaimTasksRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getClaimTasksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Prolongs a lease to at least now plus its length, never to less than it had.
     * Errors: `not_found` (no such host or task), `lease_lost`, `bad_request` (a lease outside 1 to 3,600 s).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.RenewLeaseResponse renewLease(dev.taskyard.v1.RenewLeaseRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRenewLeaseMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reports that the host has begun: the task is `running`.
     * Errors: `not_found`, `lease_lost`.
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.StartTaskResponse startTask(dev.taskyard.v1.StartTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getStartTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reports how far the host is, and the tokens used. Over the task's budget the task fails with
     * `token limit exceeded` and the lease ends. Without a start report before, it counts as both.
     * Errors: `not_found`, `lease_lost`, `too_large` (details).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ReportProgressResponse reportProgress(dev.taskyard.v1.ReportProgressRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getReportProgressMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Ends the task as `done`. Without a start report before, it counts as both.
     * Errors: `not_found`, `lease_lost`, `too_large` (result).
     * Retry: safe; a repeat of a call that worked answers `lease_lost`.
     * </pre>
     */
    public dev.taskyard.v1.CompleteTaskResponse completeTask(dev.taskyard.v1.CompleteTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCompleteTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Ends the attempt with an error: the task is `failed`, or waits for its next attempt if its retry policy allows.
     * Errors: `not_found`, `lease_lost`, `bad_request` (no error given).
     * Retry: safe; a repeat of a call that worked answers `lease_lost`.
     * </pre>
     */
    public dev.taskyard.v1.FailTaskResponse failTask(dev.taskyard.v1.FailTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getFailTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Says that nothing runs for this lease any more.
     * A live lease ends and its task goes back to the queue, keeping its place. If the lease has ended before, however
     * long ago and whoever holds a later one, the task stays as it is, and a target that waited for the host to stop is
     * free.
     * Errors: `not_found` (also a task that is not kept any more), `lease_lost` (the token is of another host's lease, the
     * task's last one, or of none so far).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ReleaseTaskResponse releaseTask(dev.taskyard.v1.ReleaseTaskRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getReleaseTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the live leases, oldest claim first.
     * Errors: `not_found` (no such host), `bad_request` (a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ListLeasesResponse listLeases(dev.taskyard.v1.ListLeasesRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListLeasesMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service LeaseService.
   * <pre>
   * LeaseService hands out tasks and takes reports (runtime-host-model).
   * </pre>
   */
  public static final class LeaseServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<LeaseServiceBlockingStub> {
    private LeaseServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected LeaseServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new LeaseServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Leases one task to a host: the next one that fairness, the limits, its target and the host's abilities allow.
     * Errors: `not_found` (the host is not registered), `bad_request` (a lease outside 1 to 3,600 s).
     * Retry: not blindly; a lost answer may have leased a task, which comes back when that lease expires.
     * </pre>
     */
    public dev.taskyard.v1.ClaimTaskResponse claimTask(dev.taskyard.v1.ClaimTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getClaimTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Leases up to `max_tasks` tasks to a host at once, in claim order.
     * Errors: those of ClaimTask, `bad_request` (no tasks asked for, or more than 1,000).
     * Retry: as ClaimTask.
     * </pre>
     */
    public dev.taskyard.v1.ClaimTasksResponse claimTasks(dev.taskyard.v1.ClaimTasksRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getClaimTasksMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Prolongs a lease to at least now plus its length, never to less than it had.
     * Errors: `not_found` (no such host or task), `lease_lost`, `bad_request` (a lease outside 1 to 3,600 s).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.RenewLeaseResponse renewLease(dev.taskyard.v1.RenewLeaseRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRenewLeaseMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reports that the host has begun: the task is `running`.
     * Errors: `not_found`, `lease_lost`.
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.StartTaskResponse startTask(dev.taskyard.v1.StartTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getStartTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reports how far the host is, and the tokens used. Over the task's budget the task fails with
     * `token limit exceeded` and the lease ends. Without a start report before, it counts as both.
     * Errors: `not_found`, `lease_lost`, `too_large` (details).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ReportProgressResponse reportProgress(dev.taskyard.v1.ReportProgressRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getReportProgressMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Ends the task as `done`. Without a start report before, it counts as both.
     * Errors: `not_found`, `lease_lost`, `too_large` (result).
     * Retry: safe; a repeat of a call that worked answers `lease_lost`.
     * </pre>
     */
    public dev.taskyard.v1.CompleteTaskResponse completeTask(dev.taskyard.v1.CompleteTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCompleteTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Ends the attempt with an error: the task is `failed`, or waits for its next attempt if its retry policy allows.
     * Errors: `not_found`, `lease_lost`, `bad_request` (no error given).
     * Retry: safe; a repeat of a call that worked answers `lease_lost`.
     * </pre>
     */
    public dev.taskyard.v1.FailTaskResponse failTask(dev.taskyard.v1.FailTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getFailTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Says that nothing runs for this lease any more.
     * A live lease ends and its task goes back to the queue, keeping its place. If the lease has ended before, however
     * long ago and whoever holds a later one, the task stays as it is, and a target that waited for the host to stop is
     * free.
     * Errors: `not_found` (also a task that is not kept any more), `lease_lost` (the token is of another host's lease, the
     * task's last one, or of none so far).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ReleaseTaskResponse releaseTask(dev.taskyard.v1.ReleaseTaskRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getReleaseTaskMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the live leases, oldest claim first.
     * Errors: `not_found` (no such host), `bad_request` (a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ListLeasesResponse listLeases(dev.taskyard.v1.ListLeasesRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListLeasesMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service LeaseService.
   * <pre>
   * LeaseService hands out tasks and takes reports (runtime-host-model).
   * </pre>
   */
  public static final class LeaseServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<LeaseServiceFutureStub> {
    private LeaseServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected LeaseServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new LeaseServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Leases one task to a host: the next one that fairness, the limits, its target and the host's abilities allow.
     * Errors: `not_found` (the host is not registered), `bad_request` (a lease outside 1 to 3,600 s).
     * Retry: not blindly; a lost answer may have leased a task, which comes back when that lease expires.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.ClaimTaskResponse> claimTask(
        dev.taskyard.v1.ClaimTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getClaimTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Leases up to `max_tasks` tasks to a host at once, in claim order.
     * Errors: those of ClaimTask, `bad_request` (no tasks asked for, or more than 1,000).
     * Retry: as ClaimTask.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.ClaimTasksResponse> claimTasks(
        dev.taskyard.v1.ClaimTasksRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getClaimTasksMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Prolongs a lease to at least now plus its length, never to less than it had.
     * Errors: `not_found` (no such host or task), `lease_lost`, `bad_request` (a lease outside 1 to 3,600 s).
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.RenewLeaseResponse> renewLease(
        dev.taskyard.v1.RenewLeaseRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRenewLeaseMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Reports that the host has begun: the task is `running`.
     * Errors: `not_found`, `lease_lost`.
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.StartTaskResponse> startTask(
        dev.taskyard.v1.StartTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getStartTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Reports how far the host is, and the tokens used. Over the task's budget the task fails with
     * `token limit exceeded` and the lease ends. Without a start report before, it counts as both.
     * Errors: `not_found`, `lease_lost`, `too_large` (details).
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.ReportProgressResponse> reportProgress(
        dev.taskyard.v1.ReportProgressRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getReportProgressMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Ends the task as `done`. Without a start report before, it counts as both.
     * Errors: `not_found`, `lease_lost`, `too_large` (result).
     * Retry: safe; a repeat of a call that worked answers `lease_lost`.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.CompleteTaskResponse> completeTask(
        dev.taskyard.v1.CompleteTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCompleteTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Ends the attempt with an error: the task is `failed`, or waits for its next attempt if its retry policy allows.
     * Errors: `not_found`, `lease_lost`, `bad_request` (no error given).
     * Retry: safe; a repeat of a call that worked answers `lease_lost`.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.FailTaskResponse> failTask(
        dev.taskyard.v1.FailTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getFailTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Says that nothing runs for this lease any more.
     * A live lease ends and its task goes back to the queue, keeping its place. If the lease has ended before, however
     * long ago and whoever holds a later one, the task stays as it is, and a target that waited for the host to stop is
     * free.
     * Errors: `not_found` (also a task that is not kept any more), `lease_lost` (the token is of another host's lease, the
     * task's last one, or of none so far).
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.ReleaseTaskResponse> releaseTask(
        dev.taskyard.v1.ReleaseTaskRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getReleaseTaskMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists the live leases, oldest claim first.
     * Errors: `not_found` (no such host), `bad_request` (a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.ListLeasesResponse> listLeases(
        dev.taskyard.v1.ListLeasesRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListLeasesMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_CLAIM_TASK = 0;
  private static final int METHODID_CLAIM_TASKS = 1;
  private static final int METHODID_RENEW_LEASE = 2;
  private static final int METHODID_START_TASK = 3;
  private static final int METHODID_REPORT_PROGRESS = 4;
  private static final int METHODID_COMPLETE_TASK = 5;
  private static final int METHODID_FAIL_TASK = 6;
  private static final int METHODID_RELEASE_TASK = 7;
  private static final int METHODID_LIST_LEASES = 8;

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
        case METHODID_CLAIM_TASK:
          serviceImpl.claimTask((dev.taskyard.v1.ClaimTaskRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.ClaimTaskResponse>) responseObserver);
          break;
        case METHODID_CLAIM_TASKS:
          serviceImpl.claimTasks((dev.taskyard.v1.ClaimTasksRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.ClaimTasksResponse>) responseObserver);
          break;
        case METHODID_RENEW_LEASE:
          serviceImpl.renewLease((dev.taskyard.v1.RenewLeaseRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.RenewLeaseResponse>) responseObserver);
          break;
        case METHODID_START_TASK:
          serviceImpl.startTask((dev.taskyard.v1.StartTaskRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.StartTaskResponse>) responseObserver);
          break;
        case METHODID_REPORT_PROGRESS:
          serviceImpl.reportProgress((dev.taskyard.v1.ReportProgressRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.ReportProgressResponse>) responseObserver);
          break;
        case METHODID_COMPLETE_TASK:
          serviceImpl.completeTask((dev.taskyard.v1.CompleteTaskRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.CompleteTaskResponse>) responseObserver);
          break;
        case METHODID_FAIL_TASK:
          serviceImpl.failTask((dev.taskyard.v1.FailTaskRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.FailTaskResponse>) responseObserver);
          break;
        case METHODID_RELEASE_TASK:
          serviceImpl.releaseTask((dev.taskyard.v1.ReleaseTaskRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.ReleaseTaskResponse>) responseObserver);
          break;
        case METHODID_LIST_LEASES:
          serviceImpl.listLeases((dev.taskyard.v1.ListLeasesRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.ListLeasesResponse>) responseObserver);
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
          getClaimTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.ClaimTaskRequest,
              dev.taskyard.v1.ClaimTaskResponse>(
                service, METHODID_CLAIM_TASK)))
        .addMethod(
          getClaimTasksMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.ClaimTasksRequest,
              dev.taskyard.v1.ClaimTasksResponse>(
                service, METHODID_CLAIM_TASKS)))
        .addMethod(
          getRenewLeaseMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.RenewLeaseRequest,
              dev.taskyard.v1.RenewLeaseResponse>(
                service, METHODID_RENEW_LEASE)))
        .addMethod(
          getStartTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.StartTaskRequest,
              dev.taskyard.v1.StartTaskResponse>(
                service, METHODID_START_TASK)))
        .addMethod(
          getReportProgressMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.ReportProgressRequest,
              dev.taskyard.v1.ReportProgressResponse>(
                service, METHODID_REPORT_PROGRESS)))
        .addMethod(
          getCompleteTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.CompleteTaskRequest,
              dev.taskyard.v1.CompleteTaskResponse>(
                service, METHODID_COMPLETE_TASK)))
        .addMethod(
          getFailTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.FailTaskRequest,
              dev.taskyard.v1.FailTaskResponse>(
                service, METHODID_FAIL_TASK)))
        .addMethod(
          getReleaseTaskMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.ReleaseTaskRequest,
              dev.taskyard.v1.ReleaseTaskResponse>(
                service, METHODID_RELEASE_TASK)))
        .addMethod(
          getListLeasesMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.ListLeasesRequest,
              dev.taskyard.v1.ListLeasesResponse>(
                service, METHODID_LIST_LEASES)))
        .build();
  }

  private static abstract class LeaseServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    LeaseServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.taskyard.v1.LeaseProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("LeaseService");
    }
  }

  private static final class LeaseServiceFileDescriptorSupplier
      extends LeaseServiceBaseDescriptorSupplier {
    LeaseServiceFileDescriptorSupplier() {}
  }

  private static final class LeaseServiceMethodDescriptorSupplier
      extends LeaseServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    LeaseServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (LeaseServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new LeaseServiceFileDescriptorSupplier())
              .addMethod(getClaimTaskMethod())
              .addMethod(getClaimTasksMethod())
              .addMethod(getRenewLeaseMethod())
              .addMethod(getStartTaskMethod())
              .addMethod(getReportProgressMethod())
              .addMethod(getCompleteTaskMethod())
              .addMethod(getFailTaskMethod())
              .addMethod(getReleaseTaskMethod())
              .addMethod(getListLeasesMethod())
              .build();
        }
      }
    }
    return result;
  }
}
