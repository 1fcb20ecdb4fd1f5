/** The messages that a host writes to its stream. */
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { type ConnectRequest, ConnectRequestSchema } from "./gen/taskyard/v1/runtime_host_pb.js";

export function request(message: MessageInitShape<typeof ConnectRequestSchema>["message"]): ConnectRequest {
  return create(ConnectRequestSchema, { message });
}

/** One message of a heartbeat and reports, or both as they are where that does not fit one. */
export function joinedWith(
  heartbeat: ConnectRequest,
  reports: ConnectRequest,
  fits: (bytes: number) => boolean,
): ConnectRequest[] {
  const [beat, { message }] = [heartbeat.message, reports];
  const bytes = [heartbeat, reports].reduce((sum, each) => sum + toBinary(ConnectRequestSchema, each).length, 0);
  if (beat.case !== "heartbeat" || message.case !== "reports" || !fits(bytes)) return [heartbeat, reports];
  message.value.heartbeat = beat.value;
  return [reports];
}
