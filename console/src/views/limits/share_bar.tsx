/** The share that an agent received, as a bar, with a mark where the one is that its weight entitles it to. */

export interface ShareBarProps {
  /** From 0 to 1. */
  received: number;
  entitled: number;
}

export function ShareBar({ received, entitled }: ShareBarProps) {
  const percent = (share: number) => `${Math.round(share * 100)} %`;
  return (
    <span class="measured" title={`received ${percent(received)} in 10 min, entitled to ${percent(entitled)} now`}>
      <span class="share-bar" aria-hidden="true">
        <span class="share-received" style={{ width: `${Math.min(1, received) * 100}%` }} />
        <span class="share-entitled" style={{ left: `${Math.min(1, entitled) * 100}%` }} />
      </span>
      <span class="figure">
        {percent(received)}
        <span class="dim"> / {percent(entitled)}</span>
      </span>
    </span>
  );
}
