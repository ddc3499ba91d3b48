/**
 * A list whose element `0` is known to the compiler. If an array literal is checked against both a type parameter and
 * this type, it is inferred as a tuple even if it begins with a spread.
 */
export type TupleLike<A> = ReadonlyArray<A> & { readonly 0?: A }
