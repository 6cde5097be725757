/* Intrusive doubly linked lists: the links are members of the caller's structs, and the list's head
 * is one more link of the ring.
 *
 *     struct job { struct gs_list link; ... };
 *     struct gs_list jobs;
 *     gs_list_init(&jobs);
 *     gs_list_append(&jobs, &job->link);
 *     struct job *first = gs_container_of(gs_list_first(&jobs), struct job, link);
 *
 * Every operation takes constant time and cannot fail. A link that is all zero, or that was
 * removed, is in no list.
 */
#ifndef GOSSAMER_LIST_H
#define GOSSAMER_LIST_H

#include <gossamer/api.h>
#include <stdbool.h>
#include <stddef.h>

GS_BEGIN_DECLS

struct gs_list {
    struct gs_list *next, *previous;
};

/* The struct of which *pointer is the member. */
#define gs_container_of(pointer_, type_, member_)                                                  \
    ((type_ *)(void *)((char *)(pointer_) - offsetof(type_, member_)))

/* Visit each link of a list. The body may remove the link that it visits, and no other. */
#define GS_LIST_FOREACH(link_, list_)                                                              \
    for (struct gs_list *link_ = (list_)->next, *link_##_next = link_->next; link_ != (list_);     \
         link_ = link_##_next, link_##_next = link_->next)

/* Make the list empty, before its first use. */
static inline void gs_list_init(struct gs_list *list)
{
    list->next = list->previous = list;
}

/* Returns whether the list is empty. */
static inline bool gs_list_is_empty(const struct gs_list *list)
{
    return list->next == list;
}

/* Returns whether the link is in a list. */
static inline bool gs_list_is_linked(const struct gs_list *link)
{
    return link->next != NULL;
}

/* Returns the first link, or the list itself if it is empty. */
static inline struct gs_list *gs_list_first(const struct gs_list *list)
{
    return list->next;
}

/* Insert the link before `position`: another link, or the list itself, for the end. */
static inline void gs_list_insert_before(struct gs_list *position, struct gs_list *link)
{
    link->next = position;
    link->previous = position->previous;
    position->previous->next = link;
    position->previous = link;
}

/* Insert the link at the end. */
static inline void gs_list_append(struct gs_list *list, struct gs_list *link)
{
    gs_list_insert_before(list, link);
}

/* Insert the link at the beginning. */
static inline void gs_list_prepend(struct gs_list *list, struct gs_list *link)
{
    gs_list_insert_before(list->next, link);
}

/* Remove the link from the list that it is in. */
static inline void gs_list_remove(struct gs_list *link)
{
    link->previous->next = link->next;
    link->next->previous = link->previous;
    link->next = NULL;
}

/* Move all links of `from` to the end of `list`. */
static inline void gs_list_append_all(struct gs_list *list, struct gs_list *from)
{
    if (gs_list_is_empty(from))
        return;
    from->next->previous = list->previous;
    list->previous->next = from->next;
    from->previous->next = list;
    list->previous = from->previous;
    gs_list_init(from);
}

GS_END_DECLS

#endif
