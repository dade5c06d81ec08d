import { shapes, type Event, type KnownEvent, type KnownType, type Payloads } from "./types.gen.js";

/*
 * Decodes payloads as the server does: empty and unknown fields are dropped, required fields are set, and field names of older
 * publishers are mapped. So the fold gives the same items as on the server. The server has checked the types of all fields
 * before it stored them.
 */

type Loose = Record<string, unknown>;

/** Reports whether this version knows the event's type. */
export function isKnown(e: Event): e is KnownEvent {
  return e.type.includes(".") && Object.hasOwn(shapes, e.type);
}

/** The payload of an event of a known type, with every required field. */
export function payloadOf<T extends KnownType>(e: { type: T; payload: unknown }): Payloads[T] {
  const raw: Loose = { ...(e.payload as Loose | null) };
  synonyms[e.type]?.(raw);
  return read(e.type, raw) as unknown as Payloads[T];
}

interface Field {
  name: string;
  mark: string;
  /** The shape it refers to. */
  of: string;
  /** The mark of its zero value; undefined when an empty field is dropped. */
  empty: string | undefined;
  given: boolean;
}

const form = /^(\w+)([~@:[]?)(\w*)(?:!(\S*)|(\*))?$/;
const parsed = new Map<string, Field[]>();

function fieldsOf(shape: string): Field[] {
  let list = parsed.get(shape);
  if (!list) {
    list = (shapes[shape] ?? "").split(" ").map((word) => {
      const [, name = "", mark = "", of = "", empty, given] = form.exec(word) ?? [];
      return { name, mark, of, empty, given: given !== undefined };
    });
    parsed.set(shape, list);
  }
  return list;
}

function read(shape: string, raw: Loose): Loose {
  const out: Loose = {};
  for (const { name, mark, of, empty, given } of fieldsOf(shape)) {
    let v = raw[name];
    if (mark !== "~") {
      v ??= empty === undefined ? (mark === ":" && !given ? {} : undefined) : zeros(empty);
      if (v === undefined) continue;
      if (mark === "[") v = (v as Loose[]).map((x) => read(of, x));
      else if (mark === ":") v = read(of, v as Loose);
      else if (mark === "@") v = stamp(v as string);
      else if (empty === undefined && !given && !v) continue;
      if (empty === undefined && !given && (v as unknown[]).length === 0) continue;
    }
    if (v !== undefined) out[name] = v;
  }
  return out;
}

const zeros = (mark: string): unknown => (mark === "0" ? 0 : mark === "-" ? false : mark ? [] : "");

/** Formats a time as the server does: UTC with six decimals. */
function stamp(v: string): string {
  return /\.\d{6}Z$/.test(v) ? v : new Date(v).toISOString().replace("Z", "000Z");
}

/** A JSON value as text: a string as it is, anything else in its JSON form. */
const asText = (v: unknown): string => (v === undefined || v === null ? "" : typeof v === "string" ? v : JSON.stringify(v));

function tool(p: Loose, into = "", from = ""): void {
  p.tool ||= p.tool_name;
  p.call_id ||= p.tool_use_id;
  if (p[into] === undefined) p[into] = p[from];
}

const synonyms: { [type: string]: ((p: Loose) => void) | undefined } = {
  "session.started": (p) => {
    p.agent ||= p.agent_id;
    delete p.agent_id;
  },
  "session.failed": (p) => (p.error_message ||= p.error),
  "user.input_response": (p) => (p.text ||= p.answer),
  "agent.tool_call": (p) => tool(p, "params", "input"),
  "agent.tool_result": (p) => tool(p, "result", "content"),
  "agent.tool_error": (p) => {
    tool(p);
    p.error = asText(p.error) || asText(p.content);
  },
  "agent.status": (p) => {
    if (p.message) return;
    p.message = p.detail || p.status;
    p.phase ||= p.status;
  },
  "agent.artifact": (p) => {
    p.type ||= p.artifact_type;
    if (p.data === undefined) p.data = p.content;
  },
  "agent.input_request": (p) => {
    p.text ||= p.question;
    const options = p.options as unknown[] | undefined;
    p.options = options?.map((o) => (typeof o === "string" ? { id: o, label: o } : o));
    p.input_type ||= options?.length ? "radio" : "text";
  },
};
