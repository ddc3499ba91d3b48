/**
 * Steps for the messages at the beginning of a session that repeat another session. Each message is a copied step that
 * refers to its original. A compaction is a step before the messages that it produced.
 *
 * Source: `relay-atof-atif.md` §2.3 (`is_copied_context`) and §2.4.
 */
import type * as Schema from "effect/Schema"
import type * as Prompt from "effect/ai/Prompt"
import type * as Atif from "../Atif.ts"
import type { Beginning, Message } from "../RunTree.ts"
import * as Draft from "./Draft.ts"
import { readMessageAnswer, toContent, toJson, toSharedJson, type Pictures, renderToolResult } from "./RunContent.ts"
import { toArguments } from "./Value.ts"

/** Returns facts about the session that another one continues, for `extra` and metadata. */
export const describeContinuation = ({
  link: { changed, position, source },
  rewritten
}: Beginning): { readonly [key: string]: Schema.Json } => ({
  session_id: source,
  position,
  changed: [...changed],
  ...(rewritten === undefined
    ? {}
    : {
        context_rewritten: {
          reason: rewritten.reason,
          before: rewritten.before,
          after: rewritten.after,
          removed: toJson(rewritten.removed ?? [])
        }
      })
})

/**
 * Returns the step of a rewritten context, from the facts of {@link describeContinuation}. The steps after it are the
 * whole context.
 */
export const makeRewrittenStep = (facts: Draft.Extra, timestamp: string | undefined): Draft.Step =>
  Draft.makeStep({
    source: "system",
    message: "",
    timestamp,
    rest: { is_copied_context: true },
    extra: { ...facts, context_management: { type: "compaction", boundary: "replace" } }
  })

/** Creates the copied steps, and a map from each call to its step for results that arrive later. */
export const make = (beginning: Beginning, time: (at: number) => string | undefined, pictures: Pictures) => {
  const steps: Array<Draft.Step> = []
  const places = new Map<string, Draft.Step>()
  const timestamp = time(beginning.at)

  const addStep = (
    source: Atif.Step["source"],
    message: Atif.Content,
    { copyOf, origin }: Message,
    more: Partial<Draft.Step> = {}
  ): Draft.Step => {
    const step = Draft.makeStep({
      source,
      message,
      timestamp,
      ...more,
      rest: { is_copied_context: true, ...more.rest },
      extra: {
        ...(source === "system" && origin !== "user" ? { origin } : {}),
        ...(copyOf === undefined
          ? {}
          : {
              copy_of: {
                session_id: copyOf.sessionId,
                position: copyOf.position,
                ...(copyOf.changed === true ? { changed: true } : {})
              }
            })
      }
    })
    steps.push(step)
    return step
  }
  const addAnswer = (message: Prompt.AssistantMessage, whole: Message): void => {
    const { calls, reasoning, text } = readMessageAnswer(message)
    const step = addStep("agent", text, whole, {
      rest: reasoning === "" ? {} : { reasoning_content: reasoning },
      calls: calls.map(({ id, name, params }) => ({ id, name, args: toArguments(toSharedJson(params)), extra: {} }))
    })
    for (const { id } of calls) places.set(id, step)
  }
  for (const whole of beginning.messages) {
    const { message, origin } = whole
    if (message === undefined) continue
    if (message.role === "assistant") addAnswer(message, whole)
    else if (message.role !== "tool")
      addStep(
        message.role === "user" && origin === "user" ? "user" : "system",
        toContent(message.content, pictures),
        whole
      )
    else {
      for (const part of message.content) {
        if (part.type !== "tool-result") continue
        // A result whose call was left out gets a separate system step.
        const step = places.get(part.id) ?? addStep("system", "", whole)
        step.results.push({
          callId: places.has(part.id) ? part.id : undefined,
          content: renderToolResult(part, pictures),
          children: [],
          extra: {}
        })
      }
    }
  }
  const facts = describeContinuation(beginning)["context_rewritten"]
  // `facts` is an object with the keys above, or `undefined`.
  if (facts !== undefined) steps.unshift(makeRewrittenStep(facts as Draft.Extra, timestamp))
  return { steps, places }
}
