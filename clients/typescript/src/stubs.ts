/** The stubs of all services over the calls of one client. */
import { type Client as Stub, createClient, type Transport } from "@connectrpc/connect";
import { AdminService } from "./gen/taskyard/v1/admin_pb.js";
import { AgentService } from "./gen/taskyard/v1/agent_pb.js";
import { ArtifactService } from "./gen/taskyard/v1/artifact_pb.js";
import { BatchService } from "./gen/taskyard/v1/batch_pb.js";
import { EventService } from "./gen/taskyard/v1/event_pb.js";
import { LeaseService } from "./gen/taskyard/v1/lease_pb.js";
import { LimitService } from "./gen/taskyard/v1/limit_pb.js";
import { OperationService } from "./gen/taskyard/v1/operation_pb.js";
import { OutputService } from "./gen/taskyard/v1/output_pb.js";
import { ParkService } from "./gen/taskyard/v1/park_pb.js";
import { RuntimeHostService } from "./gen/taskyard/v1/runtime_host_pb.js";
import { ScheduleService } from "./gen/taskyard/v1/schedule_pb.js";
import { StatsService } from "./gen/taskyard/v1/stats_pb.js";
import { StepService } from "./gen/taskyard/v1/step_pb.js";
import { TargetService } from "./gen/taskyard/v1/target_pb.js";
import { TaskService } from "./gen/taskyard/v1/task_pb.js";

/** The stubs of all services. */
export interface Stubs {
  readonly tasks: Stub<typeof TaskService>;
  readonly batches: Stub<typeof BatchService>;
  readonly stats: Stub<typeof StatsService>;
  readonly targets: Stub<typeof TargetService>;
  readonly schedules: Stub<typeof ScheduleService>;
  readonly hosts: Stub<typeof RuntimeHostService>;
  readonly leases: Stub<typeof LeaseService>;
  readonly admin: Stub<typeof AdminService>;
  readonly limits: Stub<typeof LimitService>;
  readonly agents: Stub<typeof AgentService>;
  readonly operations: Stub<typeof OperationService>;
  readonly outputs: Stub<typeof OutputService>;
  readonly artifacts: Stub<typeof ArtifactService>;
  readonly steps: Stub<typeof StepService>;
  readonly parks: Stub<typeof ParkService>;
  readonly events: Stub<typeof EventService>;
}

/** The stubs over a transport. */
export function stubsOver(transport: Transport): Stubs {
  return {
    tasks: createClient(TaskService, transport),
    batches: createClient(BatchService, transport),
    stats: createClient(StatsService, transport),
    targets: createClient(TargetService, transport),
    schedules: createClient(ScheduleService, transport),
    hosts: createClient(RuntimeHostService, transport),
    leases: createClient(LeaseService, transport),
    admin: createClient(AdminService, transport),
    limits: createClient(LimitService, transport),
    agents: createClient(AgentService, transport),
    operations: createClient(OperationService, transport),
    outputs: createClient(OutputService, transport),
    artifacts: createClient(ArtifactService, transport),
    steps: createClient(StepService, transport),
    parks: createClient(ParkService, transport),
    events: createClient(EventService, transport),
  };
}
