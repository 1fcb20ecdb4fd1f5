/** The views, in the order of the navigation. */
import type { DescMethod } from "@bufbuild/protobuf";
import type { FunctionComponent } from "preact";
import { AdminService } from "@v1/admin_pb";
import { LimitService } from "@v1/limit_pb";
import { OperationService } from "@v1/operation_pb";
import { ParkService } from "@v1/park_pb";
import { RuntimeHostService } from "@v1/runtime_host_pb";
import { ScheduleService } from "@v1/schedule_pb";
import { StatsService } from "@v1/stats_pb";
import { TargetService } from "@v1/target_pb";
import { TaskService } from "@v1/task_pb";
import type { IconName } from "./parts/icon";
import { Hosts } from "./views/hosts";
import { Limits } from "./views/limits";
import { Now } from "./now/now";
import { openQuestions, Questions } from "./views/questions";
import { Operations } from "./views/operations";
import { Schedules } from "./views/schedules";
import { Server } from "./views/server";
import { Targets } from "./views/targets";
import { Tasks } from "./tasks/tasks";

export interface View {
  /** Its word in the address. */
  readonly name: string;
  readonly title: string;
  readonly icon: IconName;
  /** The call without which the view would be empty: it is offered to those who may make it. */
  readonly needs: DescMethod;
  readonly component: FunctionComponent;
  /** What is counted beside its title. */
  readonly count?: (signal: AbortSignal) => Promise<string>;
}

export const VIEWS: readonly View[] = [
  { name: "now", title: "Now", icon: "pulse", needs: StatsService.method.getStats, component: Now },
  { name: "tasks", title: "Tasks", icon: "list", needs: TaskService.method.listTasks, component: Tasks },
  {
    name: "questions",
    title: "Questions",
    icon: "question",
    needs: ParkService.method.listQuestions,
    component: Questions,
    count: openQuestions,
  },
  {
    name: "operations",
    title: "Operations",
    icon: "filter",
    needs: OperationService.method.listOperations,
    component: Operations,
  },
  { name: "hosts", title: "Hosts", icon: "server", needs: RuntimeHostService.method.listHosts, component: Hosts },
  { name: "targets", title: "Targets", icon: "target", needs: TargetService.method.listTargets, component: Targets },
  {
    name: "schedules",
    title: "Schedules",
    icon: "clock",
    needs: ScheduleService.method.listSchedules,
    component: Schedules,
  },
  { name: "limits", title: "Limits", icon: "gauge", needs: LimitService.method.listLimits, component: Limits },
  { name: "server", title: "Server", icon: "gear", needs: AdminService.method.getConfig, component: Server },
];
