/**
 * A list whose element `0` is known to the compiler, so that an array literal that begins with a spread is still
 * inferred as a tuple when it is checked against a type parameter and this type together.
 */
export type TupleLike<A> = ReadonlyArray<A> & { readonly 0?: A }
