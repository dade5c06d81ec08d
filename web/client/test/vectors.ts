import { readFileSync, readdirSync } from "node:fs";
import type { Event, Item, Preview, View } from "../src/types.gen.js";

interface Vector {
  name: string;
  events: (Event | { preview: Preview })[];
  items: Item[];
  state: View;
}

const folder = new URL("../../../chat/testdata/fold/", import.meta.url);
/** The expected result of every fold, in every language. */
export const vectors = readdirSync(folder)
  .filter((f) => f.endsWith(".json"))
  .map((f) => JSON.parse(readFileSync(new URL(f, folder), "utf8")) as Vector);
