/**
 * Steps of what a session began with that repeats another one: each message is a copied step which names its original, and a
 * compaction on the way is the step before them.
 *
 * Source: `relay-atof-atif.md` §2.3 (`is_copied_context`) and §2.4.
 */
import type * as Schema from "effect/Schema"
import type * as Prompt from "effect/ai/Prompt"
import type * as Atif from "../Atif.ts"
import type { Beginning, Message } from "../RunTree.ts"
import * as Draft from "./Draft.ts"
import { answerOfMessage, contentOf, json, type Pictures, resultContent } from "./RunContent.ts"
import { args } from "./Value.ts"

/** Facts about the session that another one goes on from, as `extra` and metadata have them. */
export const continuation = ({ link: { changed, position, source }, rewritten }: Beginning): { readonly [key: string]: Schema.Json } => ({
  session_id: source,
  position,
  changed: [...changed],
  ...(rewritten === undefined ? {} : {
    context_rewritten: { reason: rewritten.reason, before: rewritten.before, after: rewritten.after, removed: json(rewritten.removed ?? []) }
  })
})

/** The step of a rewritten context, of the facts of {@link continuation}; what follows it is the whole context. */
export const rewrittenStep = (facts: Draft.Extra, timestamp: string | undefined): Draft.Step =>
  Draft.step({
    source: "system",
    message: "",
    timestamp,
    rest: { is_copied_context: true },
    extra: { ...facts, context_management: { type: "compaction", boundary: "replace" } }
  })

/** The copied steps, with the step of each call for results that come later. */
export const make = (beginning: Beginning, time: (at: number) => string | undefined, pictures: Pictures) => {
  const steps: Array<Draft.Step> = []
  const places = new Map<string, Draft.Step>()
  const timestamp = time(beginning.at)

  const put = (source: Atif.Step["source"], message: Atif.Content, { copyOf, origin }: Message, more: Partial<Draft.Step> = {}): Draft.Step => {
    const step = Draft.step({
      source,
      message,
      timestamp,
      ...more,
      rest: { is_copied_context: true, ...more.rest },
      extra: {
        ...(source === "system" && origin !== "user" ? { origin } : {}),
        ...(copyOf === undefined ? {} : {
          copy_of: { session_id: copyOf.sessionId, position: copyOf.position, ...(copyOf.changed === true ? { changed: true } : {}) }
        })
      }
    })
    steps.push(step)
    return step
  }
  const answer = (message: Prompt.AssistantMessage, whole: Message): void => {
    const { calls, reasoning, text } = answerOfMessage(message)
    const step = put("agent", text, whole, {
      rest: reasoning === "" ? {} : { reasoning_content: reasoning },
      calls: calls.map(({ id, name, params }) => ({ id, name, args: args(json(params)), extra: {} }))
    })
    for (const { id } of calls) places.set(id, step)
  }
  for (const whole of beginning.messages) {
    const { message, origin } = whole
    if (message === undefined) continue
    if (message.role === "assistant") answer(message, whole)
    else if (message.role !== "tool") put(message.role === "user" && origin === "user" ? "user" : "system", contentOf(message.content, pictures), whole)
    else {
      for (const part of message.content) {
        if (part.type !== "tool-result") continue
        // A result whose call was left out is in no step of the agent.
        const step = places.get(part.id) ?? put("system", "", whole)
        step.results.push({ callId: places.has(part.id) ? part.id : undefined, content: resultContent(part, pictures), children: [], extra: {} })
      }
    }
  }
  const facts = continuation(beginning)["context_rewritten"]
  // It is an object of the keys above, or absent.
  if (facts !== undefined) steps.unshift(rewrittenStep(facts as Draft.Extra, timestamp))
  return { steps, places }
}
