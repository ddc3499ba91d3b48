// Checks of generated runs that wait: each call of each session has its effect once, and never without its answer.
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import type { SessionId } from "../../src/base/domain/Ids.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"

/** Calls of a session with their results, in order. */
const readCalls = (id: SessionId) =>
  SessionStore.use((store) =>
    Effect.map(store.messages(id), (messages) => {
      const closed = Conversation.closeOpenCalls(messages)
      const results = closed.flatMap((message) =>
        message.role === "tool"
          ? message.content.flatMap((part) => (part.type === "tool-result" ? [String(part.result)] : []))
          : []
      )
      const calls = closed.flatMap(Conversation.listToolCalls)
      return { id, calls, results, open: Conversation.listOpenCalls(messages) }
    })
  )

/** Calls of all sessions of a store. */
export const listSessionCalls = Effect.flatMap(
  SessionStore.use((store) => store.list({ limit: 1000 })),
  (all) => Effect.forEach(all, ({ id }) => readCalls(id))
)

/** Whether a text names the key of a call, and not only a longer key. */
export const isAbout = (text: string, key: string): boolean =>
  new RegExp(`(?<![\\d.-])${key.replaceAll(".", "\\.")}(?![\\d.-])`, "u").test(text)

/** Checks the effects of calls against their results. `isApproved` says whether a person approved the call of a key. */
export const checkCalls = (
  sessions: ReadonlyArray<Effect.Success<ReturnType<typeof readCalls>>>,
  effects: ReadonlyArray<string>,
  isApproved: (key: string) => boolean
): void => {
  const count = (line: string): number => effects.filter((one) => one === line).length
  const seen = new Set<string>()
  for (const { calls, results } of sessions)
    calls.forEach(({ name, params }, index) => {
      const result = results[index] ?? ""
      if (name === "delegate_task") {
        if (!result.startsWith("Interrupted")) assert.notMatch(result, /suspended|"failed"|"error"/u)
        return
      }
      const { key } = params as { readonly key: string }
      assert.isFalse(seen.has(key), `${name} ${key} was called twice`)
      seen.add(key)
      const [done, invoices] = [count(`${name} ${key}`), count(`invoice ${key}`)]
      assert.isAtMost(done, 1, `${name} ${key} happened twice`)
      assert.isAtMost(invoices, 1, `invoice ${key} happened twice`)
      if (/^(?:deleted|noted|paid)/u.test(result)) assert.strictEqual(done, 1, result)
      else if (!result.startsWith("Interrupted while")) assert.strictEqual(done, 0, result)
      if (/paid/u.test(result)) assert.strictEqual(invoices, 1, result)
      if (done === 1 && (name === "delete" || name === "pay"))
        assert.isTrue(isApproved(key), `${name} ${key} without an approval`)
    })
}
