/**
 * Attempts at rows that have no result yet, as the lines of `attempts.jsonl` record them. Pure.
 */
import * as Json from "../../base/domain/Json.ts"
import * as Outcome from "./Outcome.ts"

/** Attempts at a row that has no result yet. */
export interface Attempts {
  /** Number of the last attempt, counted from 1. */
  readonly number: number
  /** True if the last attempt neither failed nor finished, because its process ended or it waits for answers. */
  readonly isOpen: boolean
  /** Number of processes that began the last attempt and ended without a word, one after another. */
  readonly deaths: number
  /** Session in which the last attempt waits for answers, if it does. */
  readonly suspendedIn?: string | undefined
  readonly digest: string | undefined
  /** Failure of the last attempt, or `undefined` if it did not fail. */
  readonly failure?: AttemptFailure | undefined
}

/** Failure of an attempt. */
export interface AttemptFailure {
  readonly message: string
  /** Kind of the outcome. Journals of earlier versions have none, and their failures count as `failed`. */
  readonly kind: Outcome.Kind
}

/** Returns the last attempt of each row. */
export const readAttempts = (events: ReadonlyArray<Json.Fields>): Map<string, Attempts> => {
  const attempts = new Map<string, Attempts>()
  for (const { attempt, error, event, kind, row_digest: digest, row_id: id, session_id: session } of events) {
    if (typeof id !== "string" || typeof attempt !== "number") continue
    const failure =
      event === "fail"
        ? { message: Json.readString(error) ?? "", kind: Outcome.parseKind(kind) ?? "failed" }
        : undefined
    const suspendedIn = event === "suspend" ? (Json.readString(session) ?? "") : undefined
    const isOpen = event === "begin" || event === "leave" || suspendedIn !== undefined
    const before = attempts.get(id)
    const deaths = event !== "begin" ? 0 : before?.number === attempt && before.isOpen ? before.deaths + 1 : 1
    attempts.set(id, { number: attempt, isOpen, deaths, digest: Json.readString(digest), failure, suspendedIn })
  }
  return attempts
}
