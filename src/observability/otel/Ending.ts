/**
 * How what a span is of went: well, wrong, or cut short. Pure.
 *
 * @since 0.1.0
 */
import * as Exit from "effect/Exit"
import { type Fields, object, text } from "../atof/Facts.ts"
import * as Tracker from "../span/Tracker.ts"

/** What went wrong: `type` is one of few words, for `error.type`. */
export interface Failure {
  readonly type: string
  readonly message: string
}

/** See the module. */
export type Outcome = { readonly _tag: "Done" } | { readonly _tag: "Cut" } | { readonly _tag: "Failed"; readonly failure: Failure }

const done: Outcome = { _tag: "Done" }
const cut: Outcome = { _tag: "Cut" }
const failed = (type: string, message: string): Outcome => ({ _tag: "Failed", failure: { type: type || "_OTHER", message: message || type } })

/** The outcome that an event tells. */
export const outcome = (ending: Tracker.Ending, payload: Fields): Outcome => {
  switch (ending) {
    case Tracker.interrupted:
      return cut
    case "api_request_error": {
      const reason = text(payload, "reason")
      return reason === "interrupted" ? cut : failed(reason, text(object(payload, "error") ?? {}, "message"))
    }
    case "post_tool_call": {
      const status = text(payload, "status")
      if (status === "ok") return done
      return status === "cancelled" ? cut : failed(text(payload, "error_type") || status, text(payload, "error_message"))
    }
    case "subagent_stop": {
      const status = text(payload, "child_status")
      if (status === "completed" || status === "partial") return done
      return status === "interrupted" ? cut : failed(status, `the child ended as ${status}`)
    }
    case "on_session_end":
      if (payload["interrupted"] === true) return cut
      return payload["reason"] === "failed" ? failed("failed", "the run failed") : done
    default:
      return done
  }
}

/** The exit of a span. The error has no stack: what failed is not in this program's code. */
export const exit = (outcome: Outcome): Exit.Exit<void, Error> => {
  if (outcome._tag === "Done") return Exit.void
  if (outcome._tag === "Cut") return Exit.interrupt()
  const error = Object.assign(new Error(outcome.failure.message), { name: outcome.failure.type })
  error.stack = `${error.name}: ${error.message}`
  return Exit.fail(error)
}
