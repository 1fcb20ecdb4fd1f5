/** Dark, light, or as the system has it. */
import { signal } from "@preact/signals";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const KEY = "taskyard.theme";
const kept = localStorage.getItem(KEY) as Theme;

export const theme = signal<Theme>(THEMES.includes(kept) ? kept : "system");

theme.subscribe((value) => {
  localStorage.setItem(KEY, value);
  document.documentElement.dataset.theme = value;
});

export function nextTheme(): void {
  theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!;
}
