/**
 * Where a Bedrock route asks, and with what: region, address and key.
 *
 * **Details**
 *
 * The region is the route's, else that of the address (`bedrock-runtime.<region>.amazonaws.com`), else `us-east-1`. A
 * Bedrock API key travels as a bearer token; without one the AWS credential chain signs the request. A bearer token of the
 * environment goes to AWS only: at any other address the chain signs, which gives no secret away.
 *
 * Source: `hermes-llm.md` §2.2, §2.3, §4.4.
 */
import * as Redacted from "effect/Redacted"
import type { Route } from "../../domain/Route.ts"

/** The place and the credentials of a Bedrock route. */
export interface Endpoint {
  readonly region: string
  /** Undefined for AWS's own address of the region. */
  readonly address: string | undefined
  /** A Bedrock API key. */
  readonly token: string | undefined
  /** The authentication of requests; undefined leaves it to the SDK. */
  readonly scheme: "httpBearerAuth" | "sigv4" | undefined
}

const defaultRegion = "us-east-1"
/** Stands for a key where AWS credentials are meant. */
const chainMarker = "aws-sdk"

const regionOf = (host: string): string | undefined =>
  /^bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$/.exec(host)?.[1]

const isAws = (host: string): boolean => /(^|\.)amazonaws\.com(\.cn)?$/.test(host)

/** The endpoint of a route. */
export const of = (route: Route): Endpoint => {
  const host = route.baseUrl === undefined ? "" : URL.parse(route.baseUrl)?.hostname ?? ""
  const key = route.apiKey === undefined ? "" : Redacted.value(route.apiKey)
  const token = key === "" || key === chainMarker ? undefined : key
  return {
    region: route.region ?? regionOf(host) ?? defaultRegion,
    address: route.baseUrl,
    token,
    scheme: token !== undefined ? "httpBearerAuth" : route.baseUrl === undefined || isAws(host) ? undefined : "sigv4"
  }
}
