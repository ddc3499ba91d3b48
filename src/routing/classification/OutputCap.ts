/**
 * Tells an answer that was asked to be too long from a conversation that is too long: the first needs a smaller output
 * limit and nothing else.
 *
 * **Details**
 *
 * Providers say it in three ways: how many tokens are available, how long an answer of the model may be, or how the window
 * would have been divided. Of a division it is the output that is at fault as long as the input leaves room for an answer.
 *
 * Source: `hermes-llm.md` §11.2.
 */

/** Kept free below a limit that was counted by somebody else's tokenizer. */
const margin = 64
/** With less room than this it is the conversation that has to shrink. */
const leastRoom = 256

const number = (text: string | undefined): number => Number((text ?? "").replaceAll(/[,_]/g, ""))

/** Names of the parameter, as they stand in messages. */
const names = /max_(completion_|output_)?tokens|maxtokens|max_new_tokens/

const available = [/available[_ ]tokens['"`]?\s*[:=]\s*([\d,]+)/, /=\s*([\d,]+)\D*$/]

const longest = [
  /max_tokens: [\d,]+ > ([\d,]+), which is the maximum/,
  /supports at most ([\d,]+) (?:completion|output) tokens/,
  /valid range of max_tokens is \[\d+,\s*([\d,]+)\]/,
  /tokens['"`]? must be less than or equal to ['"`]?([\d,]+)/,
  /exceeds? the (?:model'?s? )?(?:limit|maximum) of ([\d,]+)(?: output| completion)? tokens.*max/
]

const divisions: ReadonlyArray<(text: string) => readonly [input: number, window: number] | undefined> = [
  (text) => {
    const found = /exceed context limit: ([\d,]+) \+ [\d,]+ > ([\d,]+)/.exec(text)
    return found === null ? undefined : [number(found[1]), number(found[2])]
  },
  (text) => {
    const found = /context length is ([\d,]+) tokens.*\(([\d,]+) (?:in the messages|in your prompt|of text input)/.exec(text)
    return found === null ? undefined : [number(found[2]), number(found[1])]
  },
  (text) => {
    const found = /context length is ([\d,]+) tokens.*has ([\d,]+) input tokens/.exec(text)
    return found === null ? undefined : [number(found[2]), number(found[1])]
  }
]

const first = (patterns: ReadonlyArray<RegExp>, text: string): number | undefined => {
  for (const pattern of patterns) {
    const found = number(pattern.exec(text)?.[1])
    if (found > 0) return found
  }
  return undefined
}

/** The output limit to ask for instead, from a lower-cased message; undefined when the message is about something else. */
export const parse = (text: string): number | undefined => {
  const most = first(longest, text)
  if (most !== undefined) return most
  for (const divide of divisions) {
    const found = divide(text)
    if (found === undefined) continue
    const room = found[1] - found[0]
    return room >= leastRoom ? room - margin : undefined
  }
  const room = names.test(text) ? first(available, text) : undefined
  return room === undefined ? undefined : Math.max(1, room - margin)
}
