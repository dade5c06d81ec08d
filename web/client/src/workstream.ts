import type { WorkstreamProgress } from "./types.gen.js";

/*
 * The types with which a worker launches and observes workstreams.
 */

/** A request to launch a workstream. */
export interface Launch {
  /** The launch id, unique in the session. */
  id: string;
  instruction: string;
  name?: string;
  /** Default: the tools of its agent. */
  allowed_tools?: string[];
  context?: Record<string, unknown>;
  merge_child_artifacts?: boolean;
  model?: string;
  /** 30 to 1800; default 300. */
  deadline_seconds?: number;
  /** The workstream waits for messages until it is terminated. */
  interactive?: boolean;
  /** Default: the agent that launches it. */
  agent?: string;
}

/** The status of a workstream. */
export interface WorkstreamStatus {
  launch_id: string;
  workstream_id: string;
  name?: string;
  task: string;
  agent?: string;
  parent?: string;
  state: "running" | "canceling" | "completed" | "failed" | "timeout" | "canceled";
  phase?: string;
  message?: string;
  share: number;
  ended_at?: string;
  interactive?: boolean;
  /** It is interactive and waits for a message. */
  waiting?: boolean;
  paused?: boolean;
  summary?: string;
  error?: string;
  reason?: string;
  files?: string[];
  children?: string[];
}

/** A progress report of a workstream. */
export type Progress = Partial<Omit<WorkstreamProgress, "id">>;

/** Reports whether it has ended, or is interactive and waits for a message. */
export function isOver(w: WorkstreamStatus): boolean {
  return w.ended_at !== undefined || w.waiting === true;
}

/** A workstream event as text; "" for other events. */
export function workstreamText(type: string, p: { id?: string; summary?: string; error?: string; message?: string; reason?: string; share?: number }): string {
  const words: Record<string, [string, string | undefined]> = {
    "workstream.progress": ["answered", p.summary],
    "workstream.warning": [`has used ${Math.round((p.share ?? 0) * 100)} % of its time`, p.message],
    "workstream.completed": ["completed", p.summary],
    "workstream.failed": ["failed", p.error],
    "workstream.timeout": ["ran out of time", p.summary],
    "workstream.canceled": ["was canceled", p.reason],
  };
  const found = words[type];
  if (!found) return "";
  return `Workstream ${p.id ?? ""} ${found[0]}${found[1] ? `: ${found[1]}` : "."}`;
}
