/** How a machine did over the last hour: processor and memory as lines, and its last counts. */
import type { Machine } from "@v1/runtime_host_pb";
import { Empty } from "../../parts/page";
import { lengthOf } from "../../parts/time";
import { type Course as Measured, memoryText } from "./snapshots";

export function CourseChart({ course, machine }: { course: Measured | undefined; machine: Machine | undefined }) {
  if (!machine)
    return (
      <Empty icon="gauge" title="No figures">
        This host reports nothing of its machine.
      </Empty>
    );
  const { cpuPercent, memoryMb, activeWorkers, activeTeams, sessions } = machine;
  const counts = [
    ["Workers", activeWorkers],
    ["Teams", activeTeams],
    ["Sessions", sessions],
  ] as const;
  return (
    <div class="courses">
      {cpuPercent !== undefined && (
        <Line
          name="Processor"
          now={`${Math.round(cpuPercent)} %`}
          values={course?.cpuPercent}
          max={100}
          times={course?.times}
        />
      )}
      {memoryMb !== undefined && (
        <Line name="Memory" now={memoryText(memoryMb)} values={course?.memoryMb} times={course?.times} />
      )}
      <dl class="counts">
        {counts.map(
          ([name, value]) =>
            value !== undefined && (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{value}</dd>
              </div>
            ),
        )}
      </dl>
    </div>
  );
}

interface LineProps {
  name: string;
  now: string;
  values: (number | undefined)[] | undefined;
  times: number[] | undefined;
  max?: number;
}

function Line({ name, now, values = [], times = [], max }: LineProps) {
  const known = values.filter((value) => value !== undefined);
  const span = times.length > 1 ? (times.at(-1) ?? 0) - (times[0] ?? 0) : 0;
  const label = `${name}, ${span ? `the last ${lengthOf(span)}, ` : ""}now ${now}`;
  return (
    <figure class="course">
      <figcaption>
        <span>{name}</span>
        <span class="figure">{now}</span>
      </figcaption>
      {known.length > 1 ? (
        <Course label={label} values={known} top={max ?? Math.max(1, ...known)} />
      ) : (
        <p class="dim">Its course is drawn from the second snapshot on.</p>
      )}
      {span > 0 && <small class="dim">the last {lengthOf(span)}</small>}
    </figure>
  );
}

const WIDE = 400;
const HIGH = 64;

/** A line as wide as there is room. */
function Course({ label, values, top }: { label: string; values: number[]; top: number }) {
  const point = (value: number, at: number) =>
    `${((at / (values.length - 1)) * WIDE).toFixed(1)} ${(HIGH - 2 - (Math.min(value, top) / top) * (HIGH - 4)).toFixed(1)}`;
  const line = `M${values.map(point).join("L")}`;
  return (
    <svg class="sparkline" viewBox={`0 0 ${WIDE} ${HIGH}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <path class="area" d={`${line}L${WIDE} ${HIGH}L0 ${HIGH}Z`} />
      <path class="line" d={line} vector-effect="non-scaling-stroke" />
    </svg>
  );
}
