import type { WorkstreamProgress } from "./types.gen.js";

/*
 * What a worker says and hears about workstreams: lines of work in the background of a conversation.
 */

/** The wish for a workstream. */
export interface Launch {
  /** Names the line; every launch of a session needs its own. */
  id: string;
  instruction: string;
  name?: string;
  /** Absent means those of its agent. */
  allowed_tools?: string[];
  context?: Record<string, unknown>;
  merge_child_artifacts?: boolean;
  model?: string;
  /** 300 when absent; 30 to 1800. */
  deadline_seconds?: number;
  /** Waits for follow-ups until it is terminated. */
  interactive?: boolean;
  /** Absent means that of the line that launches it. */
  agent?: string;
}

/** A workstream as it is at a moment. */
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
  /** Interactive, and waiting for a follow-up. */
  waiting?: boolean;
  paused?: boolean;
  summary?: string;
  error?: string;
  reason?: string;
  files?: string[];
  children?: string[];
}

/** What can be told of a line's progress. */
export type Progress = Partial<Omit<WorkstreamProgress, "id">>;

/** Whether there is nothing to wait for: it has ended, or it is interactive and rests. */
export function isOver(w: WorkstreamStatus): boolean {
  return w.ended_at !== undefined || w.waiting === true;
}

/** The words for what became of a workstream, "" for events that are no news of one. */
export function newsText(type: string, p: { id?: string; summary?: string; error?: string; message?: string; reason?: string; share?: number }): string {
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
