// Numbers as they are read by people.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const UNITS = ["B", "KB", "MB", "GB", "TB"];

export const count = (number: number): string => whole.format(number);

/** The noun for so many. */
export const noun = (number: number, one: string): string => (number === 1 ? one : `${one}s`);

export function bytes(number: number): string {
  let unit = 0;
  while (number >= 1000 && unit < UNITS.length - 1) {
    number /= 1000;
    unit += 1;
  }
  return `${number < 10 && unit > 0 ? number.toFixed(1) : number.toFixed(0)} ${UNITS[unit]}`;
}

export function duration(ms: number): string {
  if (ms < 1) return "< 1 ms";
  if (ms < 1000) return `${ms.toFixed(0)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}
