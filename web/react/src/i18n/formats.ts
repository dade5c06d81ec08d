/*
 * Formats numbers, sizes and times for a language.
 */

/** The formats of one language. Each catalogue of texts contains its own. */
export function formats(locale: string) {
  const plain = new Intl.NumberFormat(locale);
  const short = new Intl.NumberFormat(locale, { notation: "compact", maximumFractionDigits: 1 });
  const one = new Intl.NumberFormat(locale, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
  const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 0, useGrouping: false });
  const hourMinute = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const dayToo = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const day = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short" });
  const relative = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });
  const narrow = (n: number, unit: string): string => new Intl.NumberFormat(locale, { style: "unit", unit, unitDisplay: "narrow" }).format(n);
  const rules = new Intl.PluralRules(locale);
  const number = (n: number): string => plain.format(n);
  return {
    locale,
    number,
    /** A number with its noun in the right form. */
    count: (n: number, singular: string, plural: string): string => `${number(n)} ${rules.select(n) === "one" ? singular : plural}`,
    compact: (n: number): string => short.format(n),
    /** How long something took, in the unit a person would use. */
    took(ms: number): string {
      if (ms < 0) return "";
      if (ms < 999.5) return `${Math.round(ms)} ms`;
      if (ms < 59_500) return `${(ms < 9950 ? one : whole).format(ms / 1000)} s`;
      const long = ms >= 3_599_500;
      const n = Math.round(ms / (long ? 60_000 : 1000));
      return `${Math.floor(n / 60)} ${long ? "h" : "min"} ${n % 60} ${long ? "min" : "s"}`;
    },
    /** A size with its unit, which stay on one line. */
    bytes(n: number): string {
      if (n < 1000) return `${n}\u00a0B`;
      const units = ["kB", "MB", "GB"];
      let u = -1;
      do {
        n /= 1000;
        u++;
      } while (n >= 999.5 && u < units.length - 1);
      return `${(n < 10 ? one : whole).format(n)}\u00a0${units[u]}`;
    },
    /** A time of today as hours and minutes, another with its day. */
    moment(at: string | number | undefined): string {
      if (!at) return "";
      const d = new Date(at);
      if (Number.isNaN(d.getTime())) return "";
      return (d.toDateString() === new Date().toDateString() ? hourMinute : dayToo).format(d);
    },
    /** How long ago a moment was, in words; the day, if it was a week ago or more. */
    ago(at: string): string {
      const s = (Date.now() - Date.parse(at)) / 1000;
      if (s < 60) return relative.format(0, "second");
      if (s < 3600) return relative.format(-Math.floor(s / 60), "minute");
      if (s < 86_400) return relative.format(-Math.floor(s / 3600), "hour");
      const days = Math.round((new Date().setHours(0, 0, 0, 0) - new Date(at).setHours(0, 0, 0, 0)) / 86_400_000);
      return days < 7 ? relative.format(-days, "day") : day.format(Date.parse(at));
    },
    /** The same in as few letters as possible, for the eye. */
    agoShort(at: string): string {
      const s = (Date.now() - Date.parse(at)) / 1000;
      if (s < 60) return relative.format(0, "second");
      if (s < 3600) return narrow(Math.floor(s / 60), "minute");
      if (s < 86_400) return narrow(Math.floor(s / 3600), "hour");
      return s < 604_800 ? narrow(Math.floor(s / 86_400), "day") : day.format(Date.parse(at));
    },
  };
}

/** Markdown as one line of plain text. */
export function plain(text: string): string {
  return text
    .slice(0, 600)
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/^[ \t]*(#{1,6}|>|[-*+]|\d+\.)[ \t]+/gm, "")
    .replace(/(\*\*|__|~~|`+)/g, "")
    .replace(/\s+/g, " ")
    .trim();
}

/** Seconds as m:ss, or h:mm above an hour. */
export function clock(seconds: number): string {
  const s = Math.max(0, Math.ceil(seconds));
  const two = (n: number) => String(n).padStart(2, "0");
  return s >= 3600 ? `${Math.floor(s / 3600)}:${two(Math.floor((s % 3600) / 60))} h` : `${Math.floor(s / 60)}:${two(s % 60)}`;
}
