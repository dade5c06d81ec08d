import { createContext, useContext, useEffect, useState } from "react";
import { english as englishTexts, type Texts } from "@parley-hq/react";
import { english, type Words } from "./words.js";

/** A language of the console: the component's words and its own. */
export interface Locale {
  name: string;
  dir: "ltr" | "rtl";
  texts: Texts;
  words: Words;
}

export const inEnglish: Locale = { name: "en", dir: "ltr", texts: englishTexts, words: english };

/** The languages that people are offered, in their own words. */
export const languages = { en: "English", de: "Deutsch" } as const;

/** The language to begin with: what was chosen, else the browser's own if it is there. */
export function preferred(chosen: string): string {
  if (chosen) return chosen;
  return navigator.languages.map((l) => l.split("-")[0] ?? "").find((l) => l in languages) ?? "en";
}

/** Loads a language. pseudo and pseudo-rtl are for finding texts that do not fit, or are not in a catalogue. */
async function load(name: string): Promise<Locale> {
  if (name === "de") {
    const [{ german }, words] = await Promise.all([import("@parley-hq/react/de"), import("./words.de.js")]);
    return { name, dir: "ltr", texts: german, words: words.german };
  }
  if (name.startsWith("pseudo")) return (await import("./pseudo.js")).pseudoLocale(name === "pseudo-rtl" ? "rtl" : "ltr");
  return inEnglish;
}

/** The language by name, once it is there; until then nothing, so that no page changes its language before one's eyes. */
export function useLocale(name: string): Locale | undefined {
  const [locale, set] = useState<Locale | undefined>(name === "en" ? inEnglish : undefined);
  useEffect(() => {
    let here = true;
    load(name).then(
      (l) => here && set(l),
      () => here && set(inEnglish),
    );
    return () => void (here = false);
  }, [name]);
  useEffect(() => {
    if (!locale) return;
    document.documentElement.lang = locale.name.startsWith("pseudo") ? "en" : locale.name;
    document.documentElement.dir = locale.dir;
  }, [locale]);
  return locale;
}

const Context = createContext<Locale>(inEnglish);
export const LocaleProvider = Context.Provider;
export const useWords = (): Words => useContext(Context).words;
export const useLanguage = (): Locale => useContext(Context);
