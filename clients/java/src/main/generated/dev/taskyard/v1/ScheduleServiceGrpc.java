package dev.taskyard.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * ScheduleService keeps schedules, fires their triggers and shows both (scheduler-daemon).
 * At most `daemon.maxConcurrent` triggers of a namespace execute at once. When a place is free, the schedule of which
 * the fewest execute is next, among equal ones the one whose trigger was due first.
 * A schedule fires once for each of its due times. When the wall clock was set back by more than
 * `daemon.pollIntervalMs`, cron goes on from the time that it shows now: what has not come by then comes, and what has
 * fired while the clock was ahead does not fire again.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class ScheduleServiceGrpc {

  private ScheduleServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "taskyard.v1.ScheduleService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.CreateScheduleRequest,
      dev.taskyard.v1.CreateScheduleResponse> getCreateScheduleMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CreateSchedule",
      requestType = dev.taskyard.v1.CreateScheduleRequest.class,
      responseType = dev.taskyard.v1.CreateScheduleResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.CreateScheduleRequest,
      dev.taskyard.v1.CreateScheduleResponse> getCreateScheduleMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.CreateScheduleRequest, dev.taskyard.v1.CreateScheduleResponse> getCreateScheduleMethod;
    if ((getCreateScheduleMethod = ScheduleServiceGrpc.getCreateScheduleMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getCreateScheduleMethod = ScheduleServiceGrpc.getCreateScheduleMethod) == null) {
          ScheduleServiceGrpc.getCreateScheduleMethod = getCreateScheduleMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.CreateScheduleRequest, dev.taskyard.v1.CreateScheduleResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CreateSchedule"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.CreateScheduleRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.CreateScheduleResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("CreateSchedule"))
              .build();
        }
      }
    }
    return getCreateScheduleMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.GetScheduleRequest,
      dev.taskyard.v1.GetScheduleResponse> getGetScheduleMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetSchedule",
      requestType = dev.taskyard.v1.GetScheduleRequest.class,
      responseType = dev.taskyard.v1.GetScheduleResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.GetScheduleRequest,
      dev.taskyard.v1.GetScheduleResponse> getGetScheduleMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.GetScheduleRequest, dev.taskyard.v1.GetScheduleResponse> getGetScheduleMethod;
    if ((getGetScheduleMethod = ScheduleServiceGrpc.getGetScheduleMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getGetScheduleMethod = ScheduleServiceGrpc.getGetScheduleMethod) == null) {
          ScheduleServiceGrpc.getGetScheduleMethod = getGetScheduleMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.GetScheduleRequest, dev.taskyard.v1.GetScheduleResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetSchedule"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.GetScheduleRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.GetScheduleResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("GetSchedule"))
              .build();
        }
      }
    }
    return getGetScheduleMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.ListSchedulesRequest,
      dev.taskyard.v1.ListSchedulesResponse> getListSchedulesMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListSchedules",
      requestType = dev.taskyard.v1.ListSchedulesRequest.class,
      responseType = dev.taskyard.v1.ListSchedulesResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.ListSchedulesRequest,
      dev.taskyard.v1.ListSchedulesResponse> getListSchedulesMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.ListSchedulesRequest, dev.taskyard.v1.ListSchedulesResponse> getListSchedulesMethod;
    if ((getListSchedulesMethod = ScheduleServiceGrpc.getListSchedulesMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getListSchedulesMethod = ScheduleServiceGrpc.getListSchedulesMethod) == null) {
          ScheduleServiceGrpc.getListSchedulesMethod = getListSchedulesMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.ListSchedulesRequest, dev.taskyard.v1.ListSchedulesResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListSchedules"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ListSchedulesRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ListSchedulesResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("ListSchedules"))
              .build();
        }
      }
    }
    return getListSchedulesMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.UpdateScheduleRequest,
      dev.taskyard.v1.UpdateScheduleResponse> getUpdateScheduleMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "UpdateSchedule",
      requestType = dev.taskyard.v1.UpdateScheduleRequest.class,
      responseType = dev.taskyard.v1.UpdateScheduleResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.UpdateScheduleRequest,
      dev.taskyard.v1.UpdateScheduleResponse> getUpdateScheduleMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.UpdateScheduleRequest, dev.taskyard.v1.UpdateScheduleResponse> getUpdateScheduleMethod;
    if ((getUpdateScheduleMethod = ScheduleServiceGrpc.getUpdateScheduleMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getUpdateScheduleMethod = ScheduleServiceGrpc.getUpdateScheduleMethod) == null) {
          ScheduleServiceGrpc.getUpdateScheduleMethod = getUpdateScheduleMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.UpdateScheduleRequest, dev.taskyard.v1.UpdateScheduleResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "UpdateSchedule"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.UpdateScheduleRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.UpdateScheduleResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("UpdateSchedule"))
              .build();
        }
      }
    }
    return getUpdateScheduleMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.DeleteScheduleRequest,
      dev.taskyard.v1.DeleteScheduleResponse> getDeleteScheduleMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DeleteSchedule",
      requestType = dev.taskyard.v1.DeleteScheduleRequest.class,
      responseType = dev.taskyard.v1.DeleteScheduleResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.DeleteScheduleRequest,
      dev.taskyard.v1.DeleteScheduleResponse> getDeleteScheduleMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.DeleteScheduleRequest, dev.taskyard.v1.DeleteScheduleResponse> getDeleteScheduleMethod;
    if ((getDeleteScheduleMethod = ScheduleServiceGrpc.getDeleteScheduleMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getDeleteScheduleMethod = ScheduleServiceGrpc.getDeleteScheduleMethod) == null) {
          ScheduleServiceGrpc.getDeleteScheduleMethod = getDeleteScheduleMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.DeleteScheduleRequest, dev.taskyard.v1.DeleteScheduleResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DeleteSchedule"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.DeleteScheduleRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.DeleteScheduleResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("DeleteSchedule"))
              .build();
        }
      }
    }
    return getDeleteScheduleMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.PauseScheduleRequest,
      dev.taskyard.v1.PauseScheduleResponse> getPauseScheduleMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "PauseSchedule",
      requestType = dev.taskyard.v1.PauseScheduleRequest.class,
      responseType = dev.taskyard.v1.PauseScheduleResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.PauseScheduleRequest,
      dev.taskyard.v1.PauseScheduleResponse> getPauseScheduleMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.PauseScheduleRequest, dev.taskyard.v1.PauseScheduleResponse> getPauseScheduleMethod;
    if ((getPauseScheduleMethod = ScheduleServiceGrpc.getPauseScheduleMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getPauseScheduleMethod = ScheduleServiceGrpc.getPauseScheduleMethod) == null) {
          ScheduleServiceGrpc.getPauseScheduleMethod = getPauseScheduleMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.PauseScheduleRequest, dev.taskyard.v1.PauseScheduleResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "PauseSchedule"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.PauseScheduleRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.PauseScheduleResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("PauseSchedule"))
              .build();
        }
      }
    }
    return getPauseScheduleMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.ResumeScheduleRequest,
      dev.taskyard.v1.ResumeScheduleResponse> getResumeScheduleMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ResumeSchedule",
      requestType = dev.taskyard.v1.ResumeScheduleRequest.class,
      responseType = dev.taskyard.v1.ResumeScheduleResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.ResumeScheduleRequest,
      dev.taskyard.v1.ResumeScheduleResponse> getResumeScheduleMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.ResumeScheduleRequest, dev.taskyard.v1.ResumeScheduleResponse> getResumeScheduleMethod;
    if ((getResumeScheduleMethod = ScheduleServiceGrpc.getResumeScheduleMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getResumeScheduleMethod = ScheduleServiceGrpc.getResumeScheduleMethod) == null) {
          ScheduleServiceGrpc.getResumeScheduleMethod = getResumeScheduleMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.ResumeScheduleRequest, dev.taskyard.v1.ResumeScheduleResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ResumeSchedule"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ResumeScheduleRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ResumeScheduleResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("ResumeSchedule"))
              .build();
        }
      }
    }
    return getResumeScheduleMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.TriggerScheduleRequest,
      dev.taskyard.v1.TriggerScheduleResponse> getTriggerScheduleMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "TriggerSchedule",
      requestType = dev.taskyard.v1.TriggerScheduleRequest.class,
      responseType = dev.taskyard.v1.TriggerScheduleResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.TriggerScheduleRequest,
      dev.taskyard.v1.TriggerScheduleResponse> getTriggerScheduleMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.TriggerScheduleRequest, dev.taskyard.v1.TriggerScheduleResponse> getTriggerScheduleMethod;
    if ((getTriggerScheduleMethod = ScheduleServiceGrpc.getTriggerScheduleMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getTriggerScheduleMethod = ScheduleServiceGrpc.getTriggerScheduleMethod) == null) {
          ScheduleServiceGrpc.getTriggerScheduleMethod = getTriggerScheduleMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.TriggerScheduleRequest, dev.taskyard.v1.TriggerScheduleResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "TriggerSchedule"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.TriggerScheduleRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.TriggerScheduleResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("TriggerSchedule"))
              .build();
        }
      }
    }
    return getTriggerScheduleMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.PreviewScheduleRequest,
      dev.taskyard.v1.PreviewScheduleResponse> getPreviewScheduleMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "PreviewSchedule",
      requestType = dev.taskyard.v1.PreviewScheduleRequest.class,
      responseType = dev.taskyard.v1.PreviewScheduleResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.PreviewScheduleRequest,
      dev.taskyard.v1.PreviewScheduleResponse> getPreviewScheduleMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.PreviewScheduleRequest, dev.taskyard.v1.PreviewScheduleResponse> getPreviewScheduleMethod;
    if ((getPreviewScheduleMethod = ScheduleServiceGrpc.getPreviewScheduleMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getPreviewScheduleMethod = ScheduleServiceGrpc.getPreviewScheduleMethod) == null) {
          ScheduleServiceGrpc.getPreviewScheduleMethod = getPreviewScheduleMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.PreviewScheduleRequest, dev.taskyard.v1.PreviewScheduleResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "PreviewSchedule"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.PreviewScheduleRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.PreviewScheduleResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("PreviewSchedule"))
              .build();
        }
      }
    }
    return getPreviewScheduleMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.GetTriggerRequest,
      dev.taskyard.v1.GetTriggerResponse> getGetTriggerMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetTrigger",
      requestType = dev.taskyard.v1.GetTriggerRequest.class,
      responseType = dev.taskyard.v1.GetTriggerResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.GetTriggerRequest,
      dev.taskyard.v1.GetTriggerResponse> getGetTriggerMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.GetTriggerRequest, dev.taskyard.v1.GetTriggerResponse> getGetTriggerMethod;
    if ((getGetTriggerMethod = ScheduleServiceGrpc.getGetTriggerMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getGetTriggerMethod = ScheduleServiceGrpc.getGetTriggerMethod) == null) {
          ScheduleServiceGrpc.getGetTriggerMethod = getGetTriggerMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.GetTriggerRequest, dev.taskyard.v1.GetTriggerResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetTrigger"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.GetTriggerRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.GetTriggerResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("GetTrigger"))
              .build();
        }
      }
    }
    return getGetTriggerMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.taskyard.v1.ListTriggersRequest,
      dev.taskyard.v1.ListTriggersResponse> getListTriggersMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListTriggers",
      requestType = dev.taskyard.v1.ListTriggersRequest.class,
      responseType = dev.taskyard.v1.ListTriggersResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.taskyard.v1.ListTriggersRequest,
      dev.taskyard.v1.ListTriggersResponse> getListTriggersMethod() {
    io.grpc.MethodDescriptor<dev.taskyard.v1.ListTriggersRequest, dev.taskyard.v1.ListTriggersResponse> getListTriggersMethod;
    if ((getListTriggersMethod = ScheduleServiceGrpc.getListTriggersMethod) == null) {
      synchronized (ScheduleServiceGrpc.class) {
        if ((getListTriggersMethod = ScheduleServiceGrpc.getListTriggersMethod) == null) {
          ScheduleServiceGrpc.getListTriggersMethod = getListTriggersMethod =
              io.grpc.MethodDescriptor.<dev.taskyard.v1.ListTriggersRequest, dev.taskyard.v1.ListTriggersResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListTriggers"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ListTriggersRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.taskyard.v1.ListTriggersResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ScheduleServiceMethodDescriptorSupplier("ListTriggers"))
              .build();
        }
      }
    }
    return getListTriggersMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static ScheduleServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ScheduleServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ScheduleServiceStub>() {
        @java.lang.Override
        public ScheduleServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ScheduleServiceStub(channel, callOptions);
        }
      };
    return ScheduleServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static ScheduleServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ScheduleServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ScheduleServiceBlockingV2Stub>() {
        @java.lang.Override
        public ScheduleServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ScheduleServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return ScheduleServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static ScheduleServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ScheduleServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ScheduleServiceBlockingStub>() {
        @java.lang.Override
        public ScheduleServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ScheduleServiceBlockingStub(channel, callOptions);
        }
      };
    return ScheduleServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static ScheduleServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ScheduleServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ScheduleServiceFutureStub>() {
        @java.lang.Override
        public ScheduleServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ScheduleServiceFutureStub(channel, callOptions);
        }
      };
    return ScheduleServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * ScheduleService keeps schedules, fires their triggers and shows both (scheduler-daemon).
   * At most `daemon.maxConcurrent` triggers of a namespace execute at once. When a place is free, the schedule of which
   * the fewest execute is next, among equal ones the one whose trigger was due first.
   * A schedule fires once for each of its due times. When the wall clock was set back by more than
   * `daemon.pollIntervalMs`, cron goes on from the time that it shows now: what has not come by then comes, and what has
   * fired while the clock was ahead does not fire again.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Creates a schedule; its first trigger is due at the next time that its cadence names.
     * Errors: `bad_request` (no cadence, a malformed one, one that never comes, an unknown time zone, a malformed task),
     * `already_exists` (the id is taken by a different schedule), `too_large` (params of the task), `queue_full` (the
     * namespace has `daemon.maxSchedules` schedules), `unavailable` (draining).
     * Retry: safe with a `schedule_id`, which answers with the first; without one a repeat may create a second schedule.
     * </pre>
     */
    default void createSchedule(dev.taskyard.v1.CreateScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.CreateScheduleResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCreateScheduleMethod(), responseObserver);
    }

    /**
     * <pre>
     * Answers one schedule.
     * Errors: `not_found`.
     * Retry: safe.
     * </pre>
     */
    default void getSchedule(dev.taskyard.v1.GetScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.GetScheduleResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetScheduleMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists the schedules, oldest first.
     * Errors: `bad_request` (a page token of another query).
     * Retry: safe.
     * </pre>
     */
    default void listSchedules(dev.taskyard.v1.ListSchedulesRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ListSchedulesResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListSchedulesMethod(), responseObserver);
    }

    /**
     * <pre>
     * Replaces the given parts of a schedule. What is already submitted stays as it is. A changed cadence or time zone
     * counts from now, and skips the triggers that came due by the old one and have not fired.
     * Errors: `not_found`, `bad_request`, `too_large` (params of the task).
     * Retry: safe.
     * </pre>
     */
    default void updateSchedule(dev.taskyard.v1.UpdateScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.UpdateScheduleResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getUpdateScheduleMethod(), responseObserver);
    }

    /**
     * <pre>
     * Deletes a schedule and its pending triggers. Tasks that it has submitted go on.
     * Errors: `not_found`.
     * Retry: safe; a repeat of a call that worked answers `not_found`.
     * </pre>
     */
    default void deleteSchedule(dev.taskyard.v1.DeleteScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.DeleteScheduleResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDeleteScheduleMethod(), responseObserver);
    }

    /**
     * <pre>
     * Pauses a schedule: its pending triggers are skipped, unless a call made them, and those that come due meanwhile
     * are, unless the resume says otherwise. Pausing a paused one changes nothing.
     * Errors: `not_found`.
     * Retry: safe.
     * </pre>
     */
    default void pauseSchedule(dev.taskyard.v1.PauseScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.PauseScheduleResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getPauseScheduleMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lets a paused schedule go on at its next due time, perhaps after what it missed. Resuming an active one changes
     * nothing.
     * Errors: `not_found`.
     * Retry: safe.
     * </pre>
     */
    default void resumeSchedule(dev.taskyard.v1.ResumeScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ResumeScheduleResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getResumeScheduleMethod(), responseObserver);
    }

    /**
     * <pre>
     * Makes a trigger that is due now, whatever the cadence says, also for a paused schedule. The overlap policy applies.
     * Errors: `not_found`, `unavailable` (draining).
     * Retry: safe with an `idempotency_key`, which answers with the first trigger; without one a repeat fires again.
     * </pre>
     */
    default void triggerSchedule(dev.taskyard.v1.TriggerScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.TriggerScheduleResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getTriggerScheduleMethod(), responseObserver);
    }

    /**
     * <pre>
     * Answers when a schedule will be due next. Nothing is made.
     * Errors: `not_found`, `bad_request` (more than 1,000 times).
     * Retry: safe.
     * </pre>
     */
    default void previewSchedule(dev.taskyard.v1.PreviewScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.PreviewScheduleResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getPreviewScheduleMethod(), responseObserver);
    }

    /**
     * <pre>
     * Answers one trigger.
     * Errors: `not_found`.
     * Retry: safe.
     * </pre>
     */
    default void getTrigger(dev.taskyard.v1.GetTriggerRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.GetTriggerResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetTriggerMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists triggers, latest due first: all that have not ended, and of the others the newest 100 of each schedule, at
     * most 100,000.
     * Errors: `bad_request` (an unknown state name, a page token of another query).
     * Retry: safe.
     * </pre>
     */
    default void listTriggers(dev.taskyard.v1.ListTriggersRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ListTriggersResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListTriggersMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service ScheduleService.
   * <pre>
   * ScheduleService keeps schedules, fires their triggers and shows both (scheduler-daemon).
   * At most `daemon.maxConcurrent` triggers of a namespace execute at once. When a place is free, the schedule of which
   * the fewest execute is next, among equal ones the one whose trigger was due first.
   * A schedule fires once for each of its due times. When the wall clock was set back by more than
   * `daemon.pollIntervalMs`, cron goes on from the time that it shows now: what has not come by then comes, and what has
   * fired while the clock was ahead does not fire again.
   * </pre>
   */
  public static abstract class ScheduleServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return ScheduleServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service ScheduleService.
   * <pre>
   * ScheduleService keeps schedules, fires their triggers and shows both (scheduler-daemon).
   * At most `daemon.maxConcurrent` triggers of a namespace execute at once. When a place is free, the schedule of which
   * the fewest execute is next, among equal ones the one whose trigger was due first.
   * A schedule fires once for each of its due times. When the wall clock was set back by more than
   * `daemon.pollIntervalMs`, cron goes on from the time that it shows now: what has not come by then comes, and what has
   * fired while the clock was ahead does not fire again.
   * </pre>
   */
  public static final class ScheduleServiceStub
      extends io.grpc.stub.AbstractAsyncStub<ScheduleServiceStub> {
    private ScheduleServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ScheduleServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ScheduleServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Creates a schedule; its first trigger is due at the next time that its cadence names.
     * Errors: `bad_request` (no cadence, a malformed one, one that never comes, an unknown time zone, a malformed task),
     * `already_exists` (the id is taken by a different schedule), `too_large` (params of the task), `queue_full` (the
     * namespace has `daemon.maxSchedules` schedules), `unavailable` (draining).
     * Retry: safe with a `schedule_id`, which answers with the first; without one a repeat may create a second schedule.
     * </pre>
     */
    public void createSchedule(dev.taskyard.v1.CreateScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.CreateScheduleResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCreateScheduleMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Answers one schedule.
     * Errors: `not_found`.
     * Retry: safe.
     * </pre>
     */
    public void getSchedule(dev.taskyard.v1.GetScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.GetScheduleResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetScheduleMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists the schedules, oldest first.
     * Errors: `bad_request` (a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public void listSchedules(dev.taskyard.v1.ListSchedulesRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ListSchedulesResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListSchedulesMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Replaces the given parts of a schedule. What is already submitted stays as it is. A changed cadence or time zone
     * counts from now, and skips the triggers that came due by the old one and have not fired.
     * Errors: `not_found`, `bad_request`, `too_large` (params of the task).
     * Retry: safe.
     * </pre>
     */
    public void updateSchedule(dev.taskyard.v1.UpdateScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.UpdateScheduleResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getUpdateScheduleMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Deletes a schedule and its pending triggers. Tasks that it has submitted go on.
     * Errors: `not_found`.
     * Retry: safe; a repeat of a call that worked answers `not_found`.
     * </pre>
     */
    public void deleteSchedule(dev.taskyard.v1.DeleteScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.DeleteScheduleResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDeleteScheduleMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Pauses a schedule: its pending triggers are skipped, unless a call made them, and those that come due meanwhile
     * are, unless the resume says otherwise. Pausing a paused one changes nothing.
     * Errors: `not_found`.
     * Retry: safe.
     * </pre>
     */
    public void pauseSchedule(dev.taskyard.v1.PauseScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.PauseScheduleResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getPauseScheduleMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lets a paused schedule go on at its next due time, perhaps after what it missed. Resuming an active one changes
     * nothing.
     * Errors: `not_found`.
     * Retry: safe.
     * </pre>
     */
    public void resumeSchedule(dev.taskyard.v1.ResumeScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ResumeScheduleResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getResumeScheduleMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Makes a trigger that is due now, whatever the cadence says, also for a paused schedule. The overlap policy applies.
     * Errors: `not_found`, `unavailable` (draining).
     * Retry: safe with an `idempotency_key`, which answers with the first trigger; without one a repeat fires again.
     * </pre>
     */
    public void triggerSchedule(dev.taskyard.v1.TriggerScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.TriggerScheduleResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getTriggerScheduleMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Answers when a schedule will be due next. Nothing is made.
     * Errors: `not_found`, `bad_request` (more than 1,000 times).
     * Retry: safe.
     * </pre>
     */
    public void previewSchedule(dev.taskyard.v1.PreviewScheduleRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.PreviewScheduleResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getPreviewScheduleMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Answers one trigger.
     * Errors: `not_found`.
     * Retry: safe.
     * </pre>
     */
    public void getTrigger(dev.taskyard.v1.GetTriggerRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.GetTriggerResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetTriggerMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists triggers, latest due first: all that have not ended, and of the others the newest 100 of each schedule, at
     * most 100,000.
     * Errors: `bad_request` (an unknown state name, a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public void listTriggers(dev.taskyard.v1.ListTriggersRequest request,
        io.grpc.stub.StreamObserver<dev.taskyard.v1.ListTriggersResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListTriggersMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service ScheduleService.
   * <pre>
   * ScheduleService keeps schedules, fires their triggers and shows both (scheduler-daemon).
   * At most `daemon.maxConcurrent` triggers of a namespace execute at once. When a place is free, the schedule of which
   * the fewest execute is next, among equal ones the one whose trigger was due first.
   * A schedule fires once for each of its due times. When the wall clock was set back by more than
   * `daemon.pollIntervalMs`, cron goes on from the time that it shows now: what has not come by then comes, and what has
   * fired while the clock was ahead does not fire again.
   * </pre>
   */
  public static final class ScheduleServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<ScheduleServiceBlockingV2Stub> {
    private ScheduleServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ScheduleServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ScheduleServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Creates a schedule; its first trigger is due at the next time that its cadence names.
     * Errors: `bad_request` (no cadence, a malformed one, one that never comes, an unknown time zone, a malformed task),
     * `already_exists` (the id is taken by a different schedule), `too_large` (params of the task), `queue_full` (the
     * namespace has `daemon.maxSchedules` schedules), `unavailable` (draining).
     * Retry: safe with a `schedule_id`, which answers with the first; without one a repeat may create a second schedule.
     * </pre>
     */
    public dev.taskyard.v1.CreateScheduleResponse createSchedule(dev.taskyard.v1.CreateScheduleRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCreateScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Answers one schedule.
     * Errors: `not_found`.
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.GetScheduleResponse getSchedule(dev.taskyard.v1.GetScheduleRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the schedules, oldest first.
     * Errors: `bad_request` (a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ListSchedulesResponse listSchedules(dev.taskyard.v1.ListSchedulesRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListSchedulesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Replaces the given parts of a schedule. What is already submitted stays as it is. A changed cadence or time zone
     * counts from now, and skips the triggers that came due by the old one and have not fired.
     * Errors: `not_found`, `bad_request`, `too_large` (params of the task).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.UpdateScheduleResponse updateSchedule(dev.taskyard.v1.UpdateScheduleRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getUpdateScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Deletes a schedule and its pending triggers. Tasks that it has submitted go on.
     * Errors: `not_found`.
     * Retry: safe; a repeat of a call that worked answers `not_found`.
     * </pre>
     */
    public dev.taskyard.v1.DeleteScheduleResponse deleteSchedule(dev.taskyard.v1.DeleteScheduleRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDeleteScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Pauses a schedule: its pending triggers are skipped, unless a call made them, and those that come due meanwhile
     * are, unless the resume says otherwise. Pausing a paused one changes nothing.
     * Errors: `not_found`.
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.PauseScheduleResponse pauseSchedule(dev.taskyard.v1.PauseScheduleRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getPauseScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lets a paused schedule go on at its next due time, perhaps after what it missed. Resuming an active one changes
     * nothing.
     * Errors: `not_found`.
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ResumeScheduleResponse resumeSchedule(dev.taskyard.v1.ResumeScheduleRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getResumeScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Makes a trigger that is due now, whatever the cadence says, also for a paused schedule. The overlap policy applies.
     * Errors: `not_found`, `unavailable` (draining).
     * Retry: safe with an `idempotency_key`, which answers with the first trigger; without one a repeat fires again.
     * </pre>
     */
    public dev.taskyard.v1.TriggerScheduleResponse triggerSchedule(dev.taskyard.v1.TriggerScheduleRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getTriggerScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Answers when a schedule will be due next. Nothing is made.
     * Errors: `not_found`, `bad_request` (more than 1,000 times).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.PreviewScheduleResponse previewSchedule(dev.taskyard.v1.PreviewScheduleRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getPreviewScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Answers one trigger.
     * Errors: `not_found`.
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.GetTriggerResponse getTrigger(dev.taskyard.v1.GetTriggerRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetTriggerMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists triggers, latest due first: all that have not ended, and of the others the newest 100 of each schedule, at
     * most 100,000.
     * Errors: `bad_request` (an unknown state name, a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ListTriggersResponse listTriggers(dev.taskyard.v1.ListTriggersRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListTriggersMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service ScheduleService.
   * <pre>
   * ScheduleService keeps schedules, fires their triggers and shows both (scheduler-daemon).
   * At most `daemon.maxConcurrent` triggers of a namespace execute at once. When a place is free, the schedule of which
   * the fewest execute is next, among equal ones the one whose trigger was due first.
   * A schedule fires once for each of its due times. When the wall clock was set back by more than
   * `daemon.pollIntervalMs`, cron goes on from the time that it shows now: what has not come by then comes, and what has
   * fired while the clock was ahead does not fire again.
   * </pre>
   */
  public static final class ScheduleServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<ScheduleServiceBlockingStub> {
    private ScheduleServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ScheduleServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ScheduleServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Creates a schedule; its first trigger is due at the next time that its cadence names.
     * Errors: `bad_request` (no cadence, a malformed one, one that never comes, an unknown time zone, a malformed task),
     * `already_exists` (the id is taken by a different schedule), `too_large` (params of the task), `queue_full` (the
     * namespace has `daemon.maxSchedules` schedules), `unavailable` (draining).
     * Retry: safe with a `schedule_id`, which answers with the first; without one a repeat may create a second schedule.
     * </pre>
     */
    public dev.taskyard.v1.CreateScheduleResponse createSchedule(dev.taskyard.v1.CreateScheduleRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCreateScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Answers one schedule.
     * Errors: `not_found`.
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.GetScheduleResponse getSchedule(dev.taskyard.v1.GetScheduleRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the schedules, oldest first.
     * Errors: `bad_request` (a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ListSchedulesResponse listSchedules(dev.taskyard.v1.ListSchedulesRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListSchedulesMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Replaces the given parts of a schedule. What is already submitted stays as it is. A changed cadence or time zone
     * counts from now, and skips the triggers that came due by the old one and have not fired.
     * Errors: `not_found`, `bad_request`, `too_large` (params of the task).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.UpdateScheduleResponse updateSchedule(dev.taskyard.v1.UpdateScheduleRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getUpdateScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Deletes a schedule and its pending triggers. Tasks that it has submitted go on.
     * Errors: `not_found`.
     * Retry: safe; a repeat of a call that worked answers `not_found`.
     * </pre>
     */
    public dev.taskyard.v1.DeleteScheduleResponse deleteSchedule(dev.taskyard.v1.DeleteScheduleRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDeleteScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Pauses a schedule: its pending triggers are skipped, unless a call made them, and those that come due meanwhile
     * are, unless the resume says otherwise. Pausing a paused one changes nothing.
     * Errors: `not_found`.
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.PauseScheduleResponse pauseSchedule(dev.taskyard.v1.PauseScheduleRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getPauseScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lets a paused schedule go on at its next due time, perhaps after what it missed. Resuming an active one changes
     * nothing.
     * Errors: `not_found`.
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ResumeScheduleResponse resumeSchedule(dev.taskyard.v1.ResumeScheduleRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getResumeScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Makes a trigger that is due now, whatever the cadence says, also for a paused schedule. The overlap policy applies.
     * Errors: `not_found`, `unavailable` (draining).
     * Retry: safe with an `idempotency_key`, which answers with the first trigger; without one a repeat fires again.
     * </pre>
     */
    public dev.taskyard.v1.TriggerScheduleResponse triggerSchedule(dev.taskyard.v1.TriggerScheduleRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getTriggerScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Answers when a schedule will be due next. Nothing is made.
     * Errors: `not_found`, `bad_request` (more than 1,000 times).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.PreviewScheduleResponse previewSchedule(dev.taskyard.v1.PreviewScheduleRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getPreviewScheduleMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Answers one trigger.
     * Errors: `not_found`.
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.GetTriggerResponse getTrigger(dev.taskyard.v1.GetTriggerRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetTriggerMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists triggers, latest due first: all that have not ended, and of the others the newest 100 of each schedule, at
     * most 100,000.
     * Errors: `bad_request` (an unknown state name, a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public dev.taskyard.v1.ListTriggersResponse listTriggers(dev.taskyard.v1.ListTriggersRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListTriggersMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service ScheduleService.
   * <pre>
   * ScheduleService keeps schedules, fires their triggers and shows both (scheduler-daemon).
   * At most `daemon.maxConcurrent` triggers of a namespace execute at once. When a place is free, the schedule of which
   * the fewest execute is next, among equal ones the one whose trigger was due first.
   * A schedule fires once for each of its due times. When the wall clock was set back by more than
   * `daemon.pollIntervalMs`, cron goes on from the time that it shows now: what has not come by then comes, and what has
   * fired while the clock was ahead does not fire again.
   * </pre>
   */
  public static final class ScheduleServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<ScheduleServiceFutureStub> {
    private ScheduleServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ScheduleServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ScheduleServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Creates a schedule; its first trigger is due at the next time that its cadence names.
     * Errors: `bad_request` (no cadence, a malformed one, one that never comes, an unknown time zone, a malformed task),
     * `already_exists` (the id is taken by a different schedule), `too_large` (params of the task), `queue_full` (the
     * namespace has `daemon.maxSchedules` schedules), `unavailable` (draining).
     * Retry: safe with a `schedule_id`, which answers with the first; without one a repeat may create a second schedule.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.CreateScheduleResponse> createSchedule(
        dev.taskyard.v1.CreateScheduleRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCreateScheduleMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Answers one schedule.
     * Errors: `not_found`.
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.GetScheduleResponse> getSchedule(
        dev.taskyard.v1.GetScheduleRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetScheduleMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists the schedules, oldest first.
     * Errors: `bad_request` (a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.ListSchedulesResponse> listSchedules(
        dev.taskyard.v1.ListSchedulesRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListSchedulesMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Replaces the given parts of a schedule. What is already submitted stays as it is. A changed cadence or time zone
     * counts from now, and skips the triggers that came due by the old one and have not fired.
     * Errors: `not_found`, `bad_request`, `too_large` (params of the task).
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.UpdateScheduleResponse> updateSchedule(
        dev.taskyard.v1.UpdateScheduleRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getUpdateScheduleMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Deletes a schedule and its pending triggers. Tasks that it has submitted go on.
     * Errors: `not_found`.
     * Retry: safe; a repeat of a call that worked answers `not_found`.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.DeleteScheduleResponse> deleteSchedule(
        dev.taskyard.v1.DeleteScheduleRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDeleteScheduleMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Pauses a schedule: its pending triggers are skipped, unless a call made them, and those that come due meanwhile
     * are, unless the resume says otherwise. Pausing a paused one changes nothing.
     * Errors: `not_found`.
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.PauseScheduleResponse> pauseSchedule(
        dev.taskyard.v1.PauseScheduleRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getPauseScheduleMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lets a paused schedule go on at its next due time, perhaps after what it missed. Resuming an active one changes
     * nothing.
     * Errors: `not_found`.
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.ResumeScheduleResponse> resumeSchedule(
        dev.taskyard.v1.ResumeScheduleRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getResumeScheduleMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Makes a trigger that is due now, whatever the cadence says, also for a paused schedule. The overlap policy applies.
     * Errors: `not_found`, `unavailable` (draining).
     * Retry: safe with an `idempotency_key`, which answers with the first trigger; without one a repeat fires again.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.TriggerScheduleResponse> triggerSchedule(
        dev.taskyard.v1.TriggerScheduleRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getTriggerScheduleMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Answers when a schedule will be due next. Nothing is made.
     * Errors: `not_found`, `bad_request` (more than 1,000 times).
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.PreviewScheduleResponse> previewSchedule(
        dev.taskyard.v1.PreviewScheduleRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getPreviewScheduleMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Answers one trigger.
     * Errors: `not_found`.
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.GetTriggerResponse> getTrigger(
        dev.taskyard.v1.GetTriggerRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetTriggerMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists triggers, latest due first: all that have not ended, and of the others the newest 100 of each schedule, at
     * most 100,000.
     * Errors: `bad_request` (an unknown state name, a page token of another query).
     * Retry: safe.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.taskyard.v1.ListTriggersResponse> listTriggers(
        dev.taskyard.v1.ListTriggersRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListTriggersMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_CREATE_SCHEDULE = 0;
  private static final int METHODID_GET_SCHEDULE = 1;
  private static final int METHODID_LIST_SCHEDULES = 2;
  private static final int METHODID_UPDATE_SCHEDULE = 3;
  private static final int METHODID_DELETE_SCHEDULE = 4;
  private static final int METHODID_PAUSE_SCHEDULE = 5;
  private static final int METHODID_RESUME_SCHEDULE = 6;
  private static final int METHODID_TRIGGER_SCHEDULE = 7;
  private static final int METHODID_PREVIEW_SCHEDULE = 8;
  private static final int METHODID_GET_TRIGGER = 9;
  private static final int METHODID_LIST_TRIGGERS = 10;

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
        case METHODID_CREATE_SCHEDULE:
          serviceImpl.createSchedule((dev.taskyard.v1.CreateScheduleRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.CreateScheduleResponse>) responseObserver);
          break;
        case METHODID_GET_SCHEDULE:
          serviceImpl.getSchedule((dev.taskyard.v1.GetScheduleRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.GetScheduleResponse>) responseObserver);
          break;
        case METHODID_LIST_SCHEDULES:
          serviceImpl.listSchedules((dev.taskyard.v1.ListSchedulesRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.ListSchedulesResponse>) responseObserver);
          break;
        case METHODID_UPDATE_SCHEDULE:
          serviceImpl.updateSchedule((dev.taskyard.v1.UpdateScheduleRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.UpdateScheduleResponse>) responseObserver);
          break;
        case METHODID_DELETE_SCHEDULE:
          serviceImpl.deleteSchedule((dev.taskyard.v1.DeleteScheduleRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.DeleteScheduleResponse>) responseObserver);
          break;
        case METHODID_PAUSE_SCHEDULE:
          serviceImpl.pauseSchedule((dev.taskyard.v1.PauseScheduleRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.PauseScheduleResponse>) responseObserver);
          break;
        case METHODID_RESUME_SCHEDULE:
          serviceImpl.resumeSchedule((dev.taskyard.v1.ResumeScheduleRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.ResumeScheduleResponse>) responseObserver);
          break;
        case METHODID_TRIGGER_SCHEDULE:
          serviceImpl.triggerSchedule((dev.taskyard.v1.TriggerScheduleRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.TriggerScheduleResponse>) responseObserver);
          break;
        case METHODID_PREVIEW_SCHEDULE:
          serviceImpl.previewSchedule((dev.taskyard.v1.PreviewScheduleRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.PreviewScheduleResponse>) responseObserver);
          break;
        case METHODID_GET_TRIGGER:
          serviceImpl.getTrigger((dev.taskyard.v1.GetTriggerRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.GetTriggerResponse>) responseObserver);
          break;
        case METHODID_LIST_TRIGGERS:
          serviceImpl.listTriggers((dev.taskyard.v1.ListTriggersRequest) request,
              (io.grpc.stub.StreamObserver<dev.taskyard.v1.ListTriggersResponse>) responseObserver);
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
          getCreateScheduleMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.CreateScheduleRequest,
              dev.taskyard.v1.CreateScheduleResponse>(
                service, METHODID_CREATE_SCHEDULE)))
        .addMethod(
          getGetScheduleMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.GetScheduleRequest,
              dev.taskyard.v1.GetScheduleResponse>(
                service, METHODID_GET_SCHEDULE)))
        .addMethod(
          getListSchedulesMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.ListSchedulesRequest,
              dev.taskyard.v1.ListSchedulesResponse>(
                service, METHODID_LIST_SCHEDULES)))
        .addMethod(
          getUpdateScheduleMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.UpdateScheduleRequest,
              dev.taskyard.v1.UpdateScheduleResponse>(
                service, METHODID_UPDATE_SCHEDULE)))
        .addMethod(
          getDeleteScheduleMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.DeleteScheduleRequest,
              dev.taskyard.v1.DeleteScheduleResponse>(
                service, METHODID_DELETE_SCHEDULE)))
        .addMethod(
          getPauseScheduleMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.PauseScheduleRequest,
              dev.taskyard.v1.PauseScheduleResponse>(
                service, METHODID_PAUSE_SCHEDULE)))
        .addMethod(
          getResumeScheduleMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.ResumeScheduleRequest,
              dev.taskyard.v1.ResumeScheduleResponse>(
                service, METHODID_RESUME_SCHEDULE)))
        .addMethod(
          getTriggerScheduleMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.TriggerScheduleRequest,
              dev.taskyard.v1.TriggerScheduleResponse>(
                service, METHODID_TRIGGER_SCHEDULE)))
        .addMethod(
          getPreviewScheduleMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.PreviewScheduleRequest,
              dev.taskyard.v1.PreviewScheduleResponse>(
                service, METHODID_PREVIEW_SCHEDULE)))
        .addMethod(
          getGetTriggerMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.GetTriggerRequest,
              dev.taskyard.v1.GetTriggerResponse>(
                service, METHODID_GET_TRIGGER)))
        .addMethod(
          getListTriggersMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.taskyard.v1.ListTriggersRequest,
              dev.taskyard.v1.ListTriggersResponse>(
                service, METHODID_LIST_TRIGGERS)))
        .build();
  }

  private static abstract class ScheduleServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    ScheduleServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.taskyard.v1.ScheduleProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("ScheduleService");
    }
  }

  private static final class ScheduleServiceFileDescriptorSupplier
      extends ScheduleServiceBaseDescriptorSupplier {
    ScheduleServiceFileDescriptorSupplier() {}
  }

  private static final class ScheduleServiceMethodDescriptorSupplier
      extends ScheduleServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    ScheduleServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (ScheduleServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new ScheduleServiceFileDescriptorSupplier())
              .addMethod(getCreateScheduleMethod())
              .addMethod(getGetScheduleMethod())
              .addMethod(getListSchedulesMethod())
              .addMethod(getUpdateScheduleMethod())
              .addMethod(getDeleteScheduleMethod())
              .addMethod(getPauseScheduleMethod())
              .addMethod(getResumeScheduleMethod())
              .addMethod(getTriggerScheduleMethod())
              .addMethod(getPreviewScheduleMethod())
              .addMethod(getGetTriggerMethod())
              .addMethod(getListTriggersMethod())
              .build();
        }
      }
    }
    return result;
  }
}
