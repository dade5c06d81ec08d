import { createContext, useContext, useEffect, useState } from "react";
import { english as englishTexts, type Texts } from "@parley-hq/react";
import { english, type Words } from "./words.js";

/** A language: the texts of the component and of the console. */
export interface Locale {
  name: string;
  dir: "ltr" | "rtl";
  texts: Texts;
  words: Words;
}

export const inEnglish: Locale = { name: "en", dir: "ltr", texts: englishTexts, words: english };

/** The languages in the menu, by their own names. */
export const languages = { en: "English", de: "Deutsch" } as const;

/** The initial language: the chosen one, else the browser's if it is supported. */
export function preferred(chosen: string): string {
  if (chosen) return chosen;
  return navigator.languages.map((l) => l.split("-")[0] ?? "").find((l) => l in languages) ?? "en";
}

/** Loads a language. pseudo and pseudo-rtl find texts that do not fit, or are not in a catalogue. */
async function load(name: string): Promise<Locale> {
  if (name === "de") {
    const [{ german }, words] = await Promise.all([import("@parley-hq/react/de"), import("./words.de.js")]);
    return { name, dir: "ltr", texts: german, words: words.german };
  }
  if (name.startsWith("pseudo")) return (await import("./pseudo.js")).pseudoLocale(name === "pseudo-rtl" ? "rtl" : "ltr");
  return inEnglish;
}

/** The language by name; undefined until it is loaded, so that no page is shown in the wrong language first. */
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
