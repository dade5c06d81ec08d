import { createElement, type ReactNode } from "react";
import bash from "highlight.js/lib/languages/bash";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import java from "highlight.js/lib/languages/java";
import json from "highlight.js/lib/languages/json";
import markdown from "highlight.js/lib/languages/markdown";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "lowlight";

/* Loaded when the first closed code block of a known language is rendered. */

const low = createLowlight({ bash, css, diff, go, java, json, markdown, python, rust, sql, typescript, xml, yaml });
low.registerAlias({ bash: ["sh", "shell", "console", "zsh"], typescript: ["ts", "tsx", "js", "jsx", "javascript"], python: ["py"], diff: ["patch"], xml: ["html", "svg"], yaml: ["yml"], markdown: ["md"], json: ["jsonc", "ndjson"] });

type Node = { type: string; value?: string; properties?: { className?: unknown }; children?: Node[] };

// A cache: rows are mounted again while a reader scrolls and a message grows.
const kept = new Map<string, ReactNode>();
const most = 200;
const large = 4096; // characters; longer code is not cached

/** The highlighted code as elements; undefined when the language is not known. */
export function highlight(code: string, lang: string): ReactNode | undefined {
  if (!low.registered(lang)) return undefined;
  const key = `${lang} ${code}`;
  let drawn = kept.get(key);
  if (drawn !== undefined) return drawn;
  drawn = draw((low.highlight(lang, code) as unknown as Node).children);
  if (code.length > large) return drawn;
  if (kept.size >= most) kept.delete(kept.keys().next().value ?? "");
  kept.set(key, drawn);
  return drawn;
}

function draw(nodes: Node[] | undefined): ReactNode {
  return nodes?.map((n, i) => {
    if (n.type === "text") return n.value;
    const names = Array.isArray(n.properties?.className) ? n.properties.className.join(" ") : "";
    return createElement("span", { key: i, className: names }, draw(n.children));
  });
}
