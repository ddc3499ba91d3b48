/**
 * Makes the observations of Langfuse: a run is a chain, a child an agent, a model call a generation, an approval a guardrail.
 *
 * **Details**
 *
 * - The runs of one session share a trace, whose id follows from session and task, so that others can find it. A child is in
 *   the trace of its parent, below the tool call that delegated to it.
 * - An observation is sent when it is over. What a session sends is sampled whole, by the id of its trace.
 * - The output of a run is its final text, with the tool calls that were made and what each of them gave.
 *
 * Source: `hermes-contract.md` §5 ("Trace model").
 */
import type * as Schema from "effect/Schema"
import { type Fields, text } from "../atof/Facts.ts"
import * as Digest from "../../platform/Digest.ts"
import type { Span, Value } from "../otlp/Span.ts"
import * as RunKey from "../span/RunKey.ts"
import * as Tracker from "../span/Tracker.ts"
import * as Generation from "./Generation.ts"
import type { Settings } from "./LangfuseSettings.ts"
import { json, metadata, type Observation, type Run, type Type } from "./Observation.ts"
import * as Values from "./Values.ts"

/** What an exporter is made of. `now` is in nanoseconds; `send` gets what is over. */
export interface Options {
  readonly settings: Pick<Settings, "environment" | "maxChars" | "release" | "sampleRate" | "tags" | "userId">
  readonly now: () => bigint
  readonly spanId: () => string
  readonly send: (span: Span) => unknown
}

const types: Readonly<Record<Tracker.Kind, Type>> = {
  run: "chain",
  step: "chain",
  child: "agent",
  model: "generation",
  tool: "tool",
  approval: "guardrail"
}

const nameOf = (kind: Tracker.Kind, payload: Fields): string => {
  switch (kind) {
    case "model":
      return Tracker.isSideCall(payload)
        ? `LLM call: ${text(payload, "platform").slice("auxiliary:".length)}`
        : `LLM call ${String(payload["api_call_count"] ?? "")}`.trim()
    case "tool":
      return `Tool: ${text(payload, "tool_name")}`
    case "approval":
      return `Approval: ${text(payload, "pattern_key") || "command"}`
    case "child":
      return `Subagent: ${text(payload, "child_role") || text(payload, "child_subagent_id")}`
    default:
      return "Hermes turn"
  }
}

/** Whether the trace is one of those that are sent; the same for all who ask. */
export const isSampled = (id: string, rate: number): boolean => Number.parseInt(id.slice(0, 8), 16) < rate * 2 ** 32

/** The first 128 bits of the SHA-256 of a text, in hexadecimal: how Langfuse's own clients make a trace id of a seed. */
const traceIdOf = (seed: string): string => Digest.hex(seed, 32)

const levelOf = (status: string): string => status === "ok" ? "DEFAULT" : status === "error" ? "ERROR" : "WARNING"

/** See the module. */
export const make = ({ now, send, settings, spanId }: Options): Tracker.Exporter<Observation> => {
  const { environment, maxChars, release, sampleRate, tags, userId } = settings
  const bounded = (value: Schema.Json): Schema.Json => Values.bounded(value, maxChars)

  const begin = (payload: Fields, parent: Run | undefined): Run => {
    const session = text(payload, "session_id") || text(payload, "parent_session_id")
    const id = parent?.traceId ?? traceIdOf(`${session || "sessionless"}::${text(payload, "task_id") || RunKey.of(payload)}`)
    const user = text(payload, "sender_id") || userId
    return {
      traceId: id,
      isSampled: parent?.isSampled ?? isSampled(id, sampleRate),
      common: parent?.common ?? {
        ...(session === "" ? {} : { "session.id": session }),
        ...(user === undefined ? {} : { "user.id": user }),
        ...(environment === undefined ? {} : { "langfuse.environment": environment }),
        ...(release === undefined ? {} : { "langfuse.release": release }),
        "langfuse.trace.name": "Hermes turn",
        "langfuse.trace.tags": ["hermes", "langfuse", ...tags]
      },
      calls: new Map(),
      content: "",
      reasoning: undefined,
      exit: undefined
    }
  }

  const opening = (kind: Tracker.Kind, payload: Fields): Record<string, Value> => {
    switch (kind) {
      case "model":
        return Generation.opening(payload, maxChars)
      case "tool":
        return {
          "langfuse.observation.input": JSON.stringify(bounded(payload["args"] ?? {})),
          ...metadata({ tool_call_id: payload["tool_call_id"] })
        }
      case "approval":
        return {
          "langfuse.observation.input": JSON.stringify(bounded({
            command: payload["command"] ?? "",
            description: payload["description"] ?? "",
            pattern_keys: payload["pattern_keys"] ?? []
          })),
          ...metadata({ surface: payload["surface"] })
        }
      case "child":
        return {
          "langfuse.observation.input": json(bounded(payload["child_goal"] ?? "")),
          ...metadata({
            child_session_id: payload["child_session_id"],
            child_subagent_id: payload["child_subagent_id"],
            child_role: payload["child_role"]
          })
        }
      default: {
        const message = json(bounded(payload["user_message"] ?? ""))
        return {
          "langfuse.observation.input": message,
          "langfuse.trace.input": message,
          ...metadata({ source: "hermes", task_id: payload["task_id"], turn_id: payload["turn_id"], ...facts(payload) })
        }
      }
    }
  }
  const facts = (payload: Fields) => ({
    platform: payload["platform"],
    provider: payload["provider"],
    model: payload["model"],
    api_mode: payload["api_mode"]
  })

  /** What a run says in the end. */
  const outputOf = ({ calls, content, reasoning }: Run): string =>
    JSON.stringify({
      content,
      ...(reasoning === undefined ? {} : { reasoning }),
      ...(calls.size === 0 ? {} : { tool_calls: Array.from(calls.values()) })
    })

  const closing = ({ parentSpanId, run }: Observation, ending: Tracker.Ending, payload: Fields): Record<string, Value> => {
    switch (ending) {
      case "post_api_request": {
        const answer = Generation.answer(payload, maxChars)
        run.content = answer.content
        run.reasoning = answer.reasoning
        for (const call of answer.calls) run.calls.set(String(call["id"]), call)
        return Generation.answered(payload, answer)
      }
      case "api_request_error":
        return Generation.failed(payload)
      case "post_tool_call": {
        const output = Values.result(text(payload, "tool_name"), payload["result"] ?? "", maxChars)
        const id = text(payload, "tool_call_id")
        const asked = run.calls.get(id)
        if (asked !== undefined) {
          const inner = asked["function"]
          run.calls.set(id, { ...asked, output, ...(typeof inner === "object" && inner !== null ? { function: { ...inner, output } } : {}) })
        }
        const status = text(payload, "status")
        return {
          "langfuse.observation.output": json(output),
          "langfuse.observation.level": levelOf(status),
          ...(text(payload, "error_message") === "" ? {} : { "langfuse.observation.status_message": text(payload, "error_message") }),
          ...metadata({ status, error_type: payload["error_type"], duration_ms: payload["duration_ms"] })
        }
      }
      case "post_approval_response": {
        const choice = text(payload, "choice")
        return {
          "langfuse.observation.output": choice,
          "langfuse.observation.level": /deny|timeout/u.test(choice) ? "WARNING" : "DEFAULT",
          ...metadata({ decided_by: payload["decided_by"] })
        }
      }
      case "subagent_stop":
        return {
          "langfuse.observation.output": json(bounded(payload["child_summary"] ?? "")),
          "langfuse.observation.level": text(payload, "child_status") === "completed" ? "DEFAULT" : "WARNING",
          ...metadata({ child_status: payload["child_status"], duration_ms: payload["duration_ms"] })
        }
      case Tracker.interrupted:
        return {
          "langfuse.observation.level": "WARNING",
          "langfuse.observation.status_message": "interrupted",
          ...(parentSpanId === undefined ? { "langfuse.observation.output": outputOf(run) } : {})
        }
      default: {
        const output = outputOf(run)
        return {
          "langfuse.observation.output": output,
          ...(parentSpanId === undefined ? { "langfuse.trace.output": output } : {}),
          ...(payload["completed"] === false ? { "langfuse.observation.level": payload["interrupted"] === true ? "WARNING" : "ERROR" } : {}),
          ...metadata({ exit: payload["reason"], completed: payload["completed"], interrupted: payload["interrupted"] })
        }
      }
    }
  }

  return {
    hasSteps: false,
    open: (kind, payload, parent) => {
      const run = parent === undefined || kind === "run" || kind === "child" ? begin(payload, parent?.run) : parent.run
      return {
        run,
        spanId: spanId(),
        parentSpanId: parent?.spanId,
        name: nameOf(kind, payload),
        start: now(),
        attributes: run.isSampled
          ? { ...run.common, "langfuse.observation.type": types[kind], ...opening(kind, payload) }
          : {}
      }
    },
    note: (observation, event, payload) => {
      if (event === "post_llm_call") observation.run.content = bounded(payload["assistant_response"] ?? "")
      else if (observation.run.isSampled) Object.assign(observation.attributes, metadata({ turn_id: payload["turn_id"], ...facts(payload), exit: payload["reason"] }))
    },
    close: (observation, ending, payload) => {
      const { attributes, name, parentSpanId, run, spanId, start } = observation
      if (!run.isSampled) return
      const all = { ...attributes, ...closing(observation, ending, payload) }
      const isError = all["langfuse.observation.level"] === "ERROR"
      send({
        traceId: run.traceId,
        spanId,
        parentSpanId,
        name,
        start,
        end: now(),
        attributes: all,
        error: isError ? String(all["langfuse.observation.status_message"] ?? ending) : undefined
      })
    }
  }
}
