/**
 * Gives the library's events of model calls the form of the runtime's own streams, so that a reader finds the same
 * content in both. Only events are changed. Components and providers still receive the request in its protocol.
 *
 * **Details**
 *
 * - Requests and answers have the form of chat completions (`NeutralForm`). The library does not accept a `data_schema`
 *   for the scope of a call, so it is in the metadata under this name.
 * - The request of a retry has no data if it equals the request of the attempt before it. Otherwise, readers repeat the
 *   user's message for each attempt.
 * - A failed call has no data and its error in the metadata, so that only an accepted answer is a step.
 *
 * **Gotchas**
 *
 * The library's own trajectories have a user step for the request of every call without an answer. A failed attempt
 * of a later step therefore repeats the user's message there, because its request has data.
 *
 * The library does not pass the changes of these functions to the components that execute calls. A function that throws
 * would remove the data from its event, so an event of an unexpected form is left as it is.
 *
 * Source: `relay-atof-atif.md` §2.7 and §3.2.
 */
import type * as Schema from "effect/Schema"
import { type Fields, toFields, toFiniteNumber, toNonEmptyText } from "../atif/Value.ts"
import { type Facts, schema } from "../atof/ChatCompletion.ts"
import * as NeutralForm from "./NeutralForm.ts"
import type * as Library from "./Library.ts"

/** Name under which the functions are registered. */
const name = "hermes-effect.form"

/** Priority of the functions. Others see events before them, in the form of the protocol. */
const priority = 1000

/** Request of the last attempt of a session: the model call that it belongs to, and its messages. */
interface LastRequest {
  readonly call: string
  readonly messages: string
}

/** Removes the functions from the library. */
export type Remove = () => void

/** Returns the body of a request. The library stores it under `content`, next to headers. */
const readBody = (data: Schema.Json | undefined): Schema.Json => {
  const outer = toFields(data)
  return outer["headers"] === undefined ? (data ?? null) : (outer["content"] ?? null)
}

const formatCall = (metadata: Fields): string | undefined => {
  const step = toFiniteNumber(metadata["api_call_count"])
  return step === undefined ? undefined : `${toNonEmptyText(metadata["turn_id"]) ?? ""} ${step}`
}

const withSchema = (metadata: Fields): Fields => ({ ...metadata, data_schema: schema })

/** Returns the error of a call that the library executed, under the names of the runtime's own streams. */
const describeError = (metadata: Fields): Fields => {
  const said = toNonEmptyText(metadata["otel.status_description"])?.replace(/^internal error: /u, "")
  const type = toNonEmptyText(metadata["exception.type"]) ?? "Error"
  if (metadata["otel.status_code"] !== "ERROR" || said === undefined) return {}
  return said === "interrupted"
    ? { reason: "interrupted" }
    : { error: { type, message: said }, error_type: type, error_message: said }
}

/** Returns the profile of a call with the model that answered, which may be another one than requested. */
const withModel = (profile: Schema.Json | undefined, data: Schema.Json): Schema.Json => {
  const model = toNonEmptyText(toFields(data)["model"])
  return model === undefined ? (profile ?? null) : toJsonFields({ ...toFields(profile), model_name: model })
}

/** Facts of an event's data, as a component may have changed them. */
const toJsonFields = (fields: Fields): Facts =>
  Object.fromEntries(Object.entries(fields).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])))

/** Registers the functions, if the library has such functions. */
export const registerForms = (library: Library.Library): Remove => {
  const last = new Map<string, LastRequest>()
  const isModelCall = (event: Schema.Json): boolean => toFields(event)["category"] === "llm"

  /** Returns true if the request of a retry equals the request of the attempt before it. */
  const isRepeated = (metadata: Fields, body: Schema.Json): boolean => {
    const session = toNonEmptyText(metadata["session_id"])
    const call = formatCall(metadata)
    if (session === undefined || call === undefined || metadata["side_task"] !== undefined) return false
    const messages = JSON.stringify(toFields(body)["messages"] ?? null)
    const before = last.get(session)
    last.set(session, { call, messages })
    return (toFiniteNumber(metadata["retry_count"]) ?? 0) > 0 && before?.call === call && before.messages === messages
  }

  library.registerScopeSanitizeStartGuardrail?.(name, priority, (event, fields) => {
    if (!isModelCall(event)) return fields
    const metadata = toFields(fields.metadata)
    const body = NeutralForm.toRequest(readBody(fields.data))
    return isRepeated(metadata, body)
      ? { ...fields, data: null, metadata: toJsonFields({ ...metadata, repeats_request: true }) }
      : { ...fields, data: body, metadata: toJsonFields(withSchema(metadata)) }
  })
  library.registerScopeSanitizeEndGuardrail?.(name, priority, (event, fields) => {
    if (!isModelCall(event)) return fields
    const metadata = toFields(fields.metadata)
    if (fields.data === undefined || fields.data === null)
      return { ...fields, metadata: toJsonFields({ ...describeError(metadata), ...metadata }) }
    const data = NeutralForm.toResponse(fields.data)
    return {
      ...fields,
      data,
      categoryProfile: withModel(fields.categoryProfile, data),
      metadata: toJsonFields(data === null ? metadata : withSchema(metadata))
    }
  })
  return () => {
    library.deregisterScopeSanitizeStartGuardrail?.(name)
    library.deregisterScopeSanitizeEndGuardrail?.(name)
    last.clear()
  }
}
