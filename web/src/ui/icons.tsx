/** Button icons; every button also has an accessible name. */

const PATHS = {
  auto: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12",
  light: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  dark: "M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7z",
  share: "M8 10V2M5 4.5L8 1.7l3 2.8M4 7H2.7v7h10.6V7H12",
  previous: "M10 3L5 8l5 5",
  next: "M6 3l5 5-5 5",
  close: "M4 4l8 8M12 4l-8 8",
  check: "M3 8.5l3.5 3.5L13 4.5",
  run: "M5 3l8 5-8 5z",
  stop: "M4 4h8v8H4z",
  save: "M8 2v8M5 7.5L8 10.3l3-2.8M3 13.3h10",
  loop: "M4 6.5h7a2.5 2.5 0 0 1 0 5H5M6 4L3.5 6.5 6 9",
  pause: "M4.5 3h2v10h-2zM9.5 3h2v10h-2z",
} as const;

export function Icon({ name }: { name: keyof typeof PATHS }) {
  const filled = name === "run" || name === "stop" || name === "pause" || name === "dark";
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={PATHS[name]} fill={filled ? "currentColor" : "none"} stroke="currentColor" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round" />
      {name === "auto" && <path d="M8 2a6 6 0 0 0 0 12z" fill="currentColor" />}
    </svg>
  );
}
