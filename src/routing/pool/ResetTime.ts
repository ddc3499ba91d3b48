/**
 * When a limit is lifted, from what a provider says: a header, or words and fields in the body.
 *
 * Source: `hermes-llm.md` §17.2.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import type * as AiError from "effect/ai/AiError"
import * as Evidence from "../classification/Evidence.ts"

const hours = (text: string): number => Number(/(\d+)\s*(?:hours?|hrs?|h)(?![a-z])/.exec(text)?.[1] ?? 0)
const minutes = (text: string): number => Number(/(\d+)\s*(?:minutes?|mins?|m)(?![a-z])/.exec(text)?.[1] ?? 0)
const seconds = (text: string): number => Number(/(\d+(?:\.\d+)?)\s*(?:seconds?|secs?|s)(?![a-z])/.exec(text)?.[1] ?? 0)
const millis = (text: string): number => Number(/(\d+(?:\.\d+)?)\s*ms(?![a-z])/.exec(text)?.[1] ?? 0)

/** `1h2m`, `Xhr Ymin`, `20s`, `6.5 seconds`. */
const spoken = (text: string): number =>
  ((hours(text) * 60 + minutes(text)) * 60 + seconds(text)) * 1_000 + millis(text)

/** What follows one of these is a length of time. */
const introductions =
  /(?:try again in|retry after|retry in|resets? in|reset after|quotaresetdelay['"]?\s*[:=]\s*['"]?|retrydelay['"]?\s*[:=]\s*['"]?)\s*([\d.]+\s*[a-z]+(?:[\s,]*[\d.]+\s*[a-z]+)*)/

/** What follows one of these is a moment: seconds or milliseconds since 1970, or a date. */
const moments = /(?:resets?_?at|reset_time|resets at)['"]?\s*[:=]?\s*['"]?(\d{4}-\d\d-\d\dt[\d:.]+z?|\d{10,13})/

const millisAt = (moment: string): number => {
  if (/^\d+$/.test(moment)) return moment.length > 10 ? Number(moment) : Number(moment) * 1_000
  return Date.parse(moment.toUpperCase())
}

const longest = Duration.toMillis(Duration.days(7))

const bodyOf = ({ reason }: AiError.AiError): string => "http" in reason ? reason.http?.body ?? "" : ""

/** How long from `now` until the provider takes the key again; undefined when it does not say. */
export const read = (error: AiError.AiError, now: number): Duration.Duration | undefined => {
  const { retryAfter, text } = Evidence.of(error)
  if (retryAfter !== undefined) return retryAfter
  const all = `${text} ${bodyOf(error).toLowerCase()}`
  const length = introductions.exec(all)?.[1]
  const moment = moments.exec(all)?.[1]
  const wait = length !== undefined ? spoken(length) : moment !== undefined ? millisAt(moment) - now : 0
  return wait > 0 && wait <= longest ? Duration.millis(wait) : undefined
}
