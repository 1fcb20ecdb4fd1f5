/** The icons, as lines on a grid of 24. They are decoration: the words stand beside them or in an aria-label. */
const PATHS = {
  alert: "M12 3 2.5 20h19L12 3Zm0 6.5v5m0 2.6v.1",
  calendar: "M4 5.5h16v15H4zM4 10h16M8 3v4m8-4v4",
  check: "m5 12.5 4.5 4.5L19 7.5",
  chevron: "m9 6 6 6-6 6",
  clock: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18Zm0 4.5V12l3.2 2",
  close: "m6 6 12 12M18 6 6 18",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  download: "M12 4v11m-4.5-4.5L12 15l4.5-4.5M4 20h16",
  filter: "M4 5h16l-6.2 7.5V19l-3.6-2v-4.5L4 5Z",
  gauge: "M4 18a9 9 0 1 1 16 0M12 14l4-4.5",
  gear: "M4 7h9m5 0h2M4 17h2m5 0h9M15.5 4.8v4.4M8.5 14.8v4.4",
  key: "M14.5 9.5 20 4m-2.5 2.5 2 2M10 9a5 5 0 1 0 0 10 5 5 0 0 0 0-10Z",
  list: "M9 6h11M9 12h11M9 18h11M4.5 6h.01M4.5 12h.01M4.5 18h.01",
  menu: "M4 7h16M4 12h16M4 17h16",
  minus: "M5 12h14",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5Z",
  more: "M5.5 12h.01M12 12h.01M18.5 12h.01",
  out: "M14 4h6v16h-6M4 12h11m-4-4.5 4.5 4.5L11 16.5",
  pause: "M8 5v14m8-14v14",
  play: "m7 4.5 12 7.5-12 7.5v-15Z",
  plus: "M12 5v14M5 12h14",
  pulse: "M3 12h4l3-8 4.5 16 3-8H21",
  question: "M9 9.2a3 3 0 1 1 4.3 2.7c-.8.4-1.3 1-1.3 1.9v.4m0 2.8v.1M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18Z",
  refresh: "M20 12a8 8 0 1 1-2.4-5.7M20 4v4.5h-4.5",
  search: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13Zm4.8 11.3L20 20",
  server: "M4 4.5h16v6H4zm0 9h16v6H4zM7.5 7.5h.01m-.01 9h.01",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8Zm0-5v1.6m0 14.8V21M3 12h1.6m14.8 0H21M5.6 5.6l1.2 1.2m10.4 10.4 1.2 1.2M5.6 18.4l1.2-1.2M17.2 6.8l1.2-1.2",
  system: "M3.5 5h17v11h-17zM9 20h6",
  target: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18Zm0 5a4 4 0 1 0 0 8 4 4 0 0 0 0-8Z",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13",
  up: "m6 14.5 6-6 6 6",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" width={size} height={size} aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
