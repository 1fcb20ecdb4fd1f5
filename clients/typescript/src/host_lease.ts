/** What a host keeps about each of its leases. */
import type { Assignment } from "./gen/taskyard/v1/lease_pb.js";
import type { Key, LeaseName } from "./reports.js";

/** One lease, as its host sees it. */
export interface Lease {
  key: Key;
  name: LeaseName;
  lengthMs: number;
  /** When the lease ends unless it is renewed. */
  endsAt: number;
  /** What the handler is to begin with; undefined once it has begun, or if it never will. */
  assignment: Assignment | undefined;
  /** Whether its `started` report was written to a stream, so that the server may have read it. */
  isStartWritten: boolean;
  /** Whether the lease has ended, by the server's decision or by its time. */
  isLost: boolean;
  /** The tokens that the handler has stated as used; undefined if it has stated none. */
  tokensUsed: number | undefined;
}
