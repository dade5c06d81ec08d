import { useEffect, useRef, useState } from "react";
import { Glyph } from "./glyph.js";
import { useLanguage } from "./locale.js";

/** The part of the Web Speech API that is used. */
interface Recognition {
  lang: string;
  continuous: boolean;
  onresult: ((e: { resultIndex: number; results: ArrayLike<ArrayLike<{ transcript: string }> & { isFinal: boolean }> }) => void) | null;
  onend: (() => void) | null;
  start: () => void;
  stop: () => void;
}

type Maker = new () => Recognition;
const speech = globalThis as { SpeechRecognition?: Maker; webkitSpeechRecognition?: Maker };
const Recogniser = speech.SpeechRecognition ?? speech.webkitSpeechRecognition;

/** A button that writes what a person says into the composer around it; absent where the browser cannot do that. */
export function Voice() {
  const { words, texts } = useLanguage();
  const button = useRef<HTMLButtonElement>(null);
  const active = useRef<Recognition>(undefined);
  const [on, setOn] = useState(false);
  useEffect(() => () => active.current?.stop(), []);
  if (!Recogniser) return null;
  const start = () => {
    const r = new Recogniser();
    r.lang = texts.locale;
    r.continuous = true;
    r.onresult = (e) => {
      const area = button.current?.closest("form")?.querySelector("textarea");
      for (let i = e.resultIndex; area && i < e.results.length; i++) {
        const result = e.results[i];
        const said = result?.isFinal ? result[0]?.transcript.trim() : "";
        if (!said) continue;
        const before = area.value.slice(0, area.selectionStart);
        area.setRangeText(`${before && !/\s$/.test(before) ? " " : ""}${said}`, area.selectionStart, area.selectionEnd, "end");
        area.dispatchEvent(new Event("input", { bubbles: true }));
      }
    };
    r.onend = () => {
      active.current = undefined;
      setOn(false);
    };
    active.current = r;
    setOn(true);
    r.start();
  };
  return (
    <button ref={button} type="button" className="pl-iconbutton co-voice" aria-label={words.voice} title={words.voiceNote} aria-pressed={on} onClick={() => (on ? active.current?.stop() : start())}>
      <Glyph name="mic" />
    </button>
  );
}
