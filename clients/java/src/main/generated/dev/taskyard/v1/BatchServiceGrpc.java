package dev.taskyard.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * BatchService submits, shows and cancels batches (scheduler-reference, Batch Task Submission).
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class BatchServiceGrpc {

  private BatchServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "taskyard.v1.BatchService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.SubmitBatchRequest,
      dev.taskyard.v1.SubmitBatchResponse> getSubmitBatchMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SubmitBatch",
      requestType = dev.taskyard.v1.SubmitBatchRequest.class,
      responseType = dev.taskyard.v1.SubmitBatchResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.SubmitBatchRequest,
      dev.taskyard.v1.SubmitBatchResponse> getSubmitBatchMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.SubmitBatchRequest, dev.taskyard.v1.SubmitBatchResponse> getSubmitBatchMethod;
    if ((getSubmitBatchMethod = BatchServiceGrpc.getSubmitBatchMethod) == null) {
      synchronized (BatchServiceGrpc.class) {
        if ((getSubmitBatchMethod = BatchServiceGrpc.getSubmitBatchMethod) == null) {
          BatchServiceGrpc.getSubmitBatchMethod = getSubmitBatchMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.SubmitBatchRequest, dev.taskyard.v1.SubmitBatchResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SubmitBatch"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.SubmitBatchRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.SubmitBatchResponse.getDefaultInstance()))
              .setSchemaDescriptor(new BatchServiceMethodDescriptorSupplier("SubmitBatch"))
              .build();
        }
      }
    }
    return getSubmitBatchMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.GetBatchRequest,
      dev.taskyard.v1.GetBatchResponse> getGetBatchMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetBatch",
      requestType = dev.taskyard.v1.GetBatchRequest.class,
      responseType = dev.taskyard.v1.GetBatchResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.GetBatchRequest,
      dev.taskyard.v1.GetBatchResponse> getGetBatchMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.GetBatchRequest, dev.taskyard.v1.GetBatchResponse> getGetBatchMethod;
    if ((getGetBatchMethod = BatchServiceGrpc.getGetBatchMethod) == null) {
      synchronized (BatchServiceGrpc.class) {
        if ((getGetBatchMethod = BatchServiceGrpc.getGetBatchMethod) == null) {
          BatchServiceGrpc.getGetBatchMethod = getGetBatchMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.GetBatchRequest, dev.taskyard.v1.GetBatchResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetBatch"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.GetBatchRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.GetBatchResponse.getDefaultInstance()))
              .setSchemaDescriptor(new BatchServiceMethodDescriptorSupplier("GetBatch"))
              .build();
        }
      }
    }
    return getGetBatchMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.CancelBatchRequest,
      dev.taskyard.v1.CancelBatchResponse> getCancelBatchMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CancelBatch",
      requestType = dev.taskyard.v1.CancelBatchRequest.class,
      responseType = dev.taskyard.v1.CancelBatchResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.CancelBatchRequest,
      dev.taskyard.v1.CancelBatchResponse> getCancelBatchMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.CancelBatchRequest, dev.taskyard.v1.CancelBatchResponse> getCancelBatchMethod;
    if ((getCancelBatchMethod = BatchServiceGrpc.getCancelBatchMethod) == null) {
      synchronized (BatchServiceGrpc.class) {
        if ((getCancelBatchMethod = BatchServiceGrpc.getCancelBatchMethod) == null) {
          BatchServiceGrpc.getCancelBatchMethod = getCancelBatchMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.CancelBatchRequest, dev.taskyard.v1.CancelBatchResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CancelBatch"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.CancelBatchRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.CancelBatchResponse.getDefaultInstance()))
              .setSchemaDescriptor(new BatchServiceMethodDescriptorSupplier("CancelBatch"))
              .build();
        }
      }
    }
    return getCancelBatchMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static BatchServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<BatchServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<BatchServiceStub>() {
        @java.lang.Override
        public BatchServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new BatchServiceStub(channel, callOptions);
        }
      };
    return BatchServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static BatchServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<BatchServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<BatchServiceBlockingV2Stub>() {
        @java.lang.Override
        public BatchServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new BatchServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return BatchServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static BatchServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<BatchServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<BatchServiceBlockingStub>() {
        @java.lang.Override
        public BatchServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new BatchServiceBlockingStub(channel, callOptions);
        }
      };
    return BatchServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static BatchServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<BatchServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<BatchServiceFutureStub>() {
        @java.lang.Override
        public BatchServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new BatchServiceFutureStub(channel, callOptions);
        }
      };
    return BatchServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * BatchService submits, shows and cancels batches (scheduler-reference, Batch Task Submission).
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Submits up to `maxBatchSize` (default 50) tasks of one agent, each admitted by itself.
     * The call works even if every task is refused by admission; the answer says how each fared. A request that is wrong
     * in itself, in any of its tasks, is refused as a whole and submits nothing.
     * REST answers 202.
     * Errors: `bad_request` (no agent, no tasks, a malformed task), `batch_too_large`, `too_large` (params of a task),
     * `already_exists` (an idempotency key is taken by a different task) and `queue_full` stand in the outcomes.
     * Retry: safe if every task has an `idempotency_key`; otherwise a repeat may submit tasks twice.
     * </pre>
     */
    default void submitBatch(dev.taskyard.v1.SubmitBatchRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.SubmitBatchResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSubmitBatchMethod(), responseObserver);
    }

    /**
     * <pre>
     * Answers how a batch stands: its tasks by state, and a page of them.
     * Errors: `not_found` (no such batch, or none of its tasks is retained any more), `bad_request` (a page token of
     * another query).
     * Retry: safe.
     * </pre>
     */
    default void getBatch(dev.taskyard.v1.GetBatchRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.GetBatchResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetBatchMethod(), responseObserver);
    }

    /**
     * <pre>
     * Cancels every task of a batch that has not ended, as CancelTask does.
     * Errors: `not_found`. A batch whose tasks have all ended is no error: nothing is cancelled.
     * Retry: safe.
     * </pre>
     */
    default void cancelBatch(dev.taskyard.v1.CancelBatchRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.CancelBatchResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCancelBatchMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service BatchService.
   * <pre>
   * BatchService submits, shows and cancels batches (scheduler-reference, Batch Task Submission).
   * </pre>
   */
  public static abstract class BatchServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return BatchServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service BatchService.
   * <pre>
   * BatchService submits, shows and cancels batches (scheduler-reference, Batch Task Submission).
   * </pre>
   */
  public static final class BatchServiceStub
      extends io.grpc.stub.AbstractAsyncStub<BatchServiceStub> {
    private BatchServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected BatchServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new BatchServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Submits up to `maxBatchSize` (default 50) tasks of one agent, each admitted by itself.
     * The call works even if every task is refused by admission; the answer says how each fared. A request that is wrong
     * in itself, in any of its tasks, is refused as a whole and submits nothing.
     * REST answers 202.
     * Errors: `bad_request` (no agent, no tasks, a malformed task), `batch_too_large`, `too_large` (params of a task),
     * `already_exists` (an idempotency key is taken by a different task) and `queue_full` stand in the outcomes.
     * Retry: safe if every task has an `idempotency_key`; otherwise a repeat may submit tasks twice.
     * </pre>
     */
    public void submitBatch(dev.taskyard.v1.SubmitBatchRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.SubmitBatchResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getSubmitBatchMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Answers how a batch stands: its tasks by state, and a page of them.
     * Errors: `not_found` (no such batch, or none of its tasks is retained any more), `bad_request` (a page token of
     * another query).
     * Retry: safe.
     * </pre>
     */
    public void getBatch(dev.taskyard.v1.GetBatchRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.GetBatchResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetBatchMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Cancels every task of a batch that has not ended, as CancelTask does.
     * Errors: `not_found`. A batch whose tasks have all ended is no error: nothing is cancelled.
     * Retry: safe.
     * </pre>
     */
    public void cancelBatch(dev.taskyard.v1.CancelBatchRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.CancelBatchResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCancelBatchMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service BatchService.
   * <pre>
   * BatchService submits, shows and cancels batches (scheduler-reference, Batch Task Submission).
   * </pre>
   */
  public static final class BatchServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<BatchServiceBlockingV2Stub> {
    private BatchServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected BatchServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new BatchServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Submits up to `maxBatchSize` (default 50) tasks of one agent, each admitted by itself.
     * The call works even if every task is refused by admission; the answer says how each fared. A request that is wrong
     * in itself, in any of its tasks, is refused as a whole and submits nothing.
     * REST answers 202.
     * Errors: `bad_request` (no agent, no tasks, a malformed task), `batch_too_large`, `too_large` (params of a task),
     * `already_exists` (an idempotency key is taken by a different task) and `queue_full` stand in the outcomes.
     * Retry: safe if every task has an `idempotency_key`; otherwise a repeat may submit tasks twice.
     * </pre>
     */
    public dev.taskyard.v1.SubmitBatchResponse submitBatch(dev.taskyard.v1.SubmitBatchRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getSubmitBatchMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Answers how a batch stands: its tasks by state, and a page of them.
     * Errors: `not_found` (no such batch, or none of its tasks is retained any more), `bad_request` (a page token of
     * another query).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.GetBatchResponse getBatch(dev.taskyard.v1.GetBatchRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetBatchMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Cancels every task of a batch that has not ended, as CancelTask does.
     * Errors: `not_found`. A batch whose tasks have all ended is no error: nothing is cancelled.
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.CancelBatchResponse cancelBatch(dev.taskyard.v1.CancelBatchRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCancelBatchMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service BatchService.
   * <pre>
   * BatchService submits, shows and cancels batches (scheduler-reference, Batch Task Submission).
   * </pre>
   */
  public static final class BatchServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<BatchServiceBlockingStub> {
    private BatchServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected BatchServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new BatchServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Submits up to `maxBatchSize` (default 50) tasks of one agent, each admitted by itself.
     * The call works even if every task is refused by admission; the answer says how each fared. A request that is wrong
     * in itself, in any of its tasks, is refused as a whole and submits nothing.
     * REST answers 202.
     * Errors: `bad_request` (no agent, no tasks, a malformed task), `batch_too_large`, `too_large` (params of a task),
     * `already_exists` (an idempotency key is taken by a different task) and `queue_full` stand in the outcomes.
     * Retry: safe if every task has an `idempotency_key`; otherwise a repeat may submit tasks twice.
     * </pre>
     */
    public dev.taskyard.v1.SubmitBatchResponse submitBatch(dev.taskyard.v1.SubmitBatchRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getSubmitBatchMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Answers how a batch stands: its tasks by state, and a page of them.
     * Errors: `not_found` (no such batch, or none of its tasks is retained any more), `bad_request` (a page token of
     * another query).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.GetBatchResponse getBatch(dev.taskyard.v1.GetBatchRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetBatchMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Cancels every task of a batch that has not ended, as CancelTask does.
     * Errors: `not_found`. A batch whose tasks have all ended is no error: nothing is cancelled.
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.CancelBatchResponse cancelBatch(dev.taskyard.v1.CancelBatchRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCancelBatchMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service BatchService.
   * <pre>
   * BatchService submits, shows and cancels batches (scheduler-reference, Batch Task Submission).
   * </pre>
   */
  public static final class BatchServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<BatchServiceFutureStub> {
    private BatchServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected BatchServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new BatchServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Submits up to `maxBatchSize` (default 50) tasks of one agent, each admitted by itself.
     * The call works even if every task is refused by admission; the answer says how each fared. A request that is wrong
     * in itself, in any of its tasks, is refused as a whole and submits nothing.
     * REST answers 202.
     * Errors: `bad_request` (no agent, no tasks, a malformed task), `batch_too_large`, `too_large` (params of a task),
     * `already_exists` (an idempotency key is taken by a different task) and `queue_full` stand in the outcomes.
     * Retry: safe if every task has an `idempotency_key`; otherwise a repeat may submit tasks twice.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.SubmitBatchResponse> submitBatch(
        dev.taskyard.v1.SubmitBatchRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getSubmitBatchMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Answers how a batch stands: its tasks by state, and a page of them.
     * Errors: `not_found` (no such batch, or none of its tasks is retained any more), `bad_request` (a page token of
     * another query).
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.GetBatchResponse> getBatch(
        dev.taskyard.v1.GetBatchRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetBatchMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Cancels every task of a batch that has not ended, as CancelTask does.
     * Errors: `not_found`. A batch whose tasks have all ended is no error: nothing is cancelled.
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.CancelBatchResponse> cancelBatch(
        dev.taskyard.v1.CancelBatchRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCancelBatchMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_SUBMIT_BATCH = 0;
  private static final int METHODID_GET_BATCH = 1;
  private static final int METHODID_CANCEL_BATCH = 2;

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
        case METHODID_SUBMIT_BATCH:
          serviceImpl.submitBatch((dev.taskyard.v1.SubmitBatchRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.SubmitBatchResponse>) responseObserver);
          break;
        case METHODID_GET_BATCH:
          serviceImpl.getBatch((dev.taskyard.v1.GetBatchRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.GetBatchResponse>) responseObserver);
          break;
        case METHODID_CANCEL_BATCH:
          serviceImpl.cancelBatch((dev.taskyard.v1.CancelBatchRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.CancelBatchResponse>) responseObserver);
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
          getSubmitBatchMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.SubmitBatchRequest,
              dev.taskyard.v1.SubmitBatchResponse>(
                service, METHODID_SUBMIT_BATCH)))
        .addMethod(
          getGetBatchMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.GetBatchRequest,
              dev.taskyard.v1.GetBatchResponse>(
                service, METHODID_GET_BATCH)))
        .addMethod(
          getCancelBatchMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.CancelBatchRequest,
              dev.taskyard.v1.CancelBatchResponse>(
                service, METHODID_CANCEL_BATCH)))
        .build();
  }

  private static abstract class BatchServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    BatchServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.taskyard.v1.BatchProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("BatchService");
    }
  }

  private static final class BatchServiceFileDescriptorSupplier
      extends BatchServiceBaseDescriptorSupplier {
    BatchServiceFileDescriptorSupplier() {}
  }

  private static final class BatchServiceMethodDescriptorSupplier
      extends BatchServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    BatchServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (BatchServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new BatchServiceFileDescriptorSupplier())
              .addMethod(getSubmitBatchMethod())
              .addMethod(getGetBatchMethod())
              .addMethod(getCancelBatchMethod())
              .build();
        }
      }
    }
    return result;
  }
}
